// Run the transformations of table panels as Grafana does. Standard input: [{transformations, frames}]; standard output:
// for each, its frames after them. @grafana/data wants some of a browser's globals when it is loaded.
globalThis.window = globalThis;
globalThis.addEventListener = () => {};
globalThis.document = { createElement: () => ({ getContext: () => null, style: {} }), addEventListener: () => {} };
const { createRequire } = require('node:module');
const data = createRequire(`${process.argv[2]}/`)('@grafana/data');

// A transformation that was renamed stands there twice.
const byId = new Map(Object.values(data.standardTransformers).map((one) => [one.id, one]));
data.standardTransformersRegistry.setInit(() =>
  Array.from(byId.values(), (one) => ({ id: one.id, name: one.name, transformation: one }))
);

async function main() {
  const panels = JSON.parse(require('node:fs').readFileSync(0, 'utf8'));
  const found = [];
  for (const { transformations, frames } of panels) {
    const made = frames.map((one) => data.toDataFrame(one));
    const after = await new Promise((resolve) => data.transformDataFrame(transformations, made).subscribe(resolve));
    found.push(
      after.map((frame) =>
        frame.fields.map((field) => ({
          name: data.getFieldDisplayName(field, frame, after),
          type: field.type,
          values: Array.from(field.values),
        }))
      )
    );
  }
  process.stdout.write(JSON.stringify(found));
}
main();
