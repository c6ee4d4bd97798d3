"""JAX: reads models of flax.nnx, and trains layers under jit; `import jax` is the library."""
