"""`railyard lint-nccl`: settings of NCCL judged before a job runs with them."""
