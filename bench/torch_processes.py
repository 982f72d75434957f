"""How the programs that time PyTorch run in one process or, through DistributedDataParallel over gloo, in several."""

import json
import os
import statistics
import time

import torch


def add_arguments(parser, steps=3, warmup=2):
    """Those that this module reads; and how many threads a process has."""
    for key, default in {"threads": 1, "processes": 1, "steps": steps, "warmup": warmup, "repeats": 3}.items():
        parser.add_argument(f"--{key}", type=int, default=default)


def run(train, arguments):
    """Calls train(rank, arguments) in arguments.processes processes."""
    if arguments.processes == 1:
        train(0, arguments)
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20000 + os.getpid() % 20000))
    torch.multiprocessing.spawn(train, (arguments,), nprocs=arguments.processes)


def join(model, rank, arguments):
    """The model, as the processes train it together."""
    if arguments.processes == 1:
        return model
    torch.distributed.init_process_group("gloo", rank=rank, world_size=arguments.processes)
    return torch.nn.parallel.DistributedDataParallel(model)


def wait(arguments):
    """Until all processes are here and, on a GPU, all work is done."""
    if getattr(arguments, "device", "cpu") == "cuda":
        torch.cuda.synchronize()
    elif arguments.processes > 1:
        torch.distributed.barrier()


def time_steps(step, examples, rank, arguments):
    """Prints the median of the examples per second of all processes, on rank 0. `examples`: of a process' step"""
    for i in range(arguments.warmup):
        step(i)
    rates = []
    for _ in range(arguments.repeats):
        wait(arguments)
        start = time.perf_counter()
        for i in range(arguments.steps):
            step(i)
        wait(arguments)
        rates.append(arguments.steps * examples * arguments.processes / (time.perf_counter() - start))
    if rank == 0:
        print(json.dumps({"examples_per_second": statistics.median(rates), "torch": torch.__version__}), flush=True)
    if arguments.processes > 1:
        torch.distributed.barrier()
        os._exit(0)  # gloo's threads now and then abort a process that tears them down
