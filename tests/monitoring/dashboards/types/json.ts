// A type as it is in JSON: an enum of strings is one of its strings, and nothing of it is optional in another way.
export type Json<T> = 0 extends 1 & T
  ? T
  : T extends string
    ? `${T}`
    : T extends number | boolean | null | undefined
      ? T
      : T extends Array<infer One>
        ? Array<Json<One>>
        : T extends object
          ? { [Key in keyof T]: Json<T[Key]> }
          : T;
