import os

# Threads of PyTorch and of the engine, together, must fit the machine that runs the tests.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
