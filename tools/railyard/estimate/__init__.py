"""How long a training job's gradients take between its GPUs, and how much of that its compute hides."""
