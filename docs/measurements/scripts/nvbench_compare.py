"""Times the solutions of fleetcal's rows with nvbench, on the same device, from the same source, cold.

    python nvbench_compare.py ROWS_FOLDER KERNELS_GPU_FOLDER [OUT.json]

ROWS_FOLDER holds the Parquet parts of a run of docs/measurements/plans/nvbench.toml. For each passed row of it, the
entry that it names is compiled by NVRTC under the row's own options from compat.h and the family's source, and given to
nvbench with the row's grid. Needs pyarrow, numpy, cupy and cuda-bench. nvbench measures each with its defaults: at
least 10 samples and 0.5 s, noise below 0.5%, 15 s at most, L2 written before each sample. Warm-up, compiling and
allocating are outside of its wall time; ours is what `time` says of the command.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

import cuda.bench as bench
import cupy
import pyarrow.dataset

NUMPY = {"f32": "float32", "f64": "float64"}
INPUTS = {"copy": 1, "scale": 1, "add": 2, "triad": 2}


def rows(folder):
    columns = ["kernel", "dtype", "elements", "solution", "compile_options", "launch_contexts", "block_threads",
               "vector_width", "vectors_per_thread", "estimate_ns", "interval_low_ns", "interval_high_ns", "rounds",
               "samples", "status", "role", "flush_mode", "bytes_read", "bytes_written", "enqueues_per_sample"]
    table = pyarrow.dataset.dataset(folder, format="parquet").to_table(columns=columns)
    found = [row for row in table.to_pylist() if row["status"] == "passed" and row["role"] == "fit"]
    return sorted(found, key=lambda row: (row["kernel"], row["dtype"], row["elements"], row["solution"]))


def entry(row):
    """The kernel of a solution: the threads of a block are no part of its name."""
    parts = [part for part in row["solution"].split("_") if not part.startswith("b")]
    return "_".join(["stream", row["kernel"], row["dtype"], *parts])


def function(row, folder, modules):
    options = tuple(option for option in (row["compile_options"] or "").split() if "gpu-architecture" not in option)
    if options not in modules:
        source = (folder / "compat.h").read_text() + (folder / "stream.cu").read_text()
        modules[options] = cupy.RawModule(code=source, options=options, backend="nvrtc")
    return modules[options].get_function(entry(row))


def main():
    folder = pathlib.Path(sys.argv[2])
    found = rows(sys.argv[1])
    modules, functions, results = {}, {}, []
    for index, row in enumerate(found):
        functions[index] = function(row, folder, modules)
    largest = max(row["elements"] for row in found)
    arrays = {dtype: [cupy.random.random(largest, dtype=NUMPY[dtype]) for _ in range(3)]
              for dtype in sorted({row["dtype"] for row in found})}
    cupy.cuda.Device().synchronize()

    def measure(state: bench.State):
        index = state.get_int64("row")
        row = found[index]
        context = row["launch_contexts"][0]
        tile = row["vector_width"] * row["vectors_per_thread"] * row["block_threads"]
        output, first, second = arrays[row["dtype"]]
        second = second if INPUTS[row["kernel"]] == 2 else first
        arguments = (output.data.ptr, first.data.ptr, second.data.ptr, cupy.uint64(row["elements"] // tile))

        def launch(launch: bench.Launch):
            stream = cupy.cuda.ExternalStream(launch.get_stream().addressof())
            functions[index]((context["blocks"],), (context["threads"],), arguments, stream=stream)

        state.exec(launch, batched=False)

    bench.register(measure).add_int64_axis("row", range(len(found)))
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch, "nvbench.json")
        started = time.monotonic()
        bench.run_all_benchmarks(["nvbench_compare", "--json", str(path), "-d", "0"])
        wall_s = time.monotonic() - started
        told = json.loads(path.read_text())

    print("| kernel | elements | solution | ours ns | ± % | MAD % | nvbench ns | ours / nvbench | its noise % | samples ours/its |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for state in told["benchmarks"][0]["states"]:
        index = next(int(value["value"]) for value in state["axis_values"] if value["name"] == "row")
        tags = {summary["tag"]: {item["name"]: item["value"] for item in summary["data"]}
                for summary in state["summaries"] or []}
        value = lambda tag: float(tags[tag]["value"]) if tag in tags and "value" in tags[tag] else None
        row = found[index]
        center_s = value("nv/cold/time/gpu/median") or value("nv/cold/time/gpu/mean")
        noise = value("nv/cold/time/gpu/stdev/relative")
        half = (row["interval_high_ns"] - row["interval_low_ns"]) / 2 / row["estimate_ns"] if row["interval_high_ns"] else None
        mad = statistics.median(visit["mad_ns"] / visit["median_ns"] for visit in row["rounds"] if visit["round"] > 0)
        samples = sum(visit["samples"] for visit in row["rounds"] if visit["round"] > 0)
        result = {"kernel": row["kernel"], "dtype": row["dtype"], "elements": row["elements"],
                  "solution": row["solution"], "estimate_ns": row["estimate_ns"], "half_width": half, "mad": mad,
                  "nvbench_ns": center_s * 1e9, "nvbench_statistic": "median" if "nv/cold/time/gpu/median" in tags else "mean",
                  "nvbench_noise": noise, "nvbench_samples": value("nv/cold/sample_size"), "samples": samples}
        results.append(result)
        percent = lambda part: "" if part is None else f"{part * 100:.2f}"
        print(f"| {row['kernel']} | 2^{row['elements'].bit_length() - 1} | {row['solution']} | {row['estimate_ns']:.0f} "
              f"| {percent(half)} | {percent(mad)} | {center_s * 1e9:.0f} | {row['estimate_ns'] / center_s / 1e9:.4f} "
              f"| {percent(noise)} | {samples}/{result['nvbench_samples']:.0f} |")
    print(f"\nnvbench took {wall_s:.2f} s for {len(results)} of these.")
    if len(sys.argv) > 3:
        pathlib.Path(sys.argv[3]).write_text(json.dumps({"wall_s": wall_s, "tags": sorted(tags), "results": results}, indent=1))


main()
