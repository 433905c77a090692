"""Table and picture of this package beside peers, from rows of `peers.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _report import claim, markdown_table

CLOSE = 0.002  # to the last loss
LEAST_ASKED, ASKED_SECONDS = 50_000, 0.5  # samples; seconds, over those of the sparse variational process
FAMILIES = {  # beginnings of labels, and colors
    "BEMKL": "#d1495b",
    "GPMKL": "#8d3b72",
    "UniformMKL": "#e9a3ab",
    "EasyMKL": "#e9a3ab",
    "SimpleMKL": "#e9a3ab",
    "scikit-learn": "#2f6690",
    "himalaya": "#66a182",
    "MKLpy": "#b08968",
    "GPyTorch": "#edae49",
    "skglm": "#7a7a7a",
}
MARKERS = "osD^vP*X"


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """What a row is of."""
    return row["set"], row["n"], row["task"], row["device"], row["method"]


def merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep the last row of everything, and one with a result rather than one without."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        if row["outcome"] == "done" or found.get(key_of(row), row)["outcome"] != "done":
            found[key_of(row)] = row
    return list(found.values())


def machine_of(row: dict[str, Any]) -> str:
    """Name the computer of a row."""
    threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    return str(row.get("accelerator", f"{row['machine']}, {threads}"))


def machines_of(rows: list[dict[str, Any]]) -> list[str]:
    """Name the computers of rows with results, those with the most first."""
    found = [machine_of(row) for row in rows if "score" in row]
    return sorted(set(found), key=lambda machine: (-found.count(machine), machine))


def seconds_of(row: dict[str, Any]) -> float:
    """Seconds of processor of a fit, of the wall on an accelerator."""
    return row["wall" if row["device"] == "cuda" else "cpu"]


def curve_of(row: dict[str, Any]) -> list[tuple[float, float]]:
    """Seconds and losses on the way, the end included."""
    column = 1 if row["device"] == "cuda" else 0
    on_the_way = [(point[column], point[3]) for point in row.get("curve", [])]
    return [*on_the_way, (seconds_of(row), row["loss"])] if "loss" in row else []


def to_the_score(row: dict[str, Any]) -> float:
    """Return the seconds after which the loss stays close to the last one."""
    curve = curve_of(row)
    if not curve:
        return seconds_of(row)
    close = [abs(loss - curve[-1][1]) <= CLOSE for _, loss in curve]
    first = len(close) - next((k for k, one in enumerate(reversed(close)) if not one), len(close))
    return curve[first][0]


def groups(rows: list[dict[str, Any]]) -> dict[tuple[str, str, int], list[dict[str, Any]]]:
    """Rows of each problem, small problems first, the best loss first."""
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (row["task"], row["n"], row["set"])):
        found.setdefault((row["task"], row["set"], row["n"]), []).append(row)
    for own in found.values():
        own.sort(
            key=lambda row: ("score" not in row, "loss" not in row, row.get("loss", -row.get("score", 0.0)))
        )
    return found


def report(rows: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Return the tables, and the numbers behind them."""
    parts, machines = [], machines_of(rows)
    for (task, name, n), own in groups(rows).items():
        scores = ["accuracy", "log loss"] if task == "classification" else ["R²", "negative log density"]
        body = []
        for row in own:
            label = row["method"] + (", GPU" if row["device"] == "cuda" else "")
            if "score" not in row:
                body.append([label, row["outcome"], "", "", "", "", ""])
                continue
            peak = row.get("device_peak" if row["device"] == "cuda" else "peak")
            loss, memory = (
                f"{row['loss']:.4f}" if "loss" in row else "–",
                f"{peak / 1e9:.2f}" if peak else "–",
            )
            body.append(
                f"{label} | {row['score']:.4f} | {loss} | {seconds_of(row):.3g} | {to_the_score(row):.3g} | "
                f"{memory} | {machines.index(machine_of(row)) + 1}"
            )
        headers = [f"{name}, {n} samples", *scores, "seconds", "to the score", "memory, GB", "computer"]
        parts.append(markdown_table(headers, body))
    versions: dict[str, set[str]] = {}
    for row in rows:
        for package, version in row.get("versions", {}).items():
            versions.setdefault(package, set()).add(version)
    used = ", ".join(f"{name} {'/'.join(sorted(found))}" for name, found in sorted(versions.items()))
    computers = "; ".join(f"{number}: {machine}" for number, machine in enumerate(machines, 1))
    about = f"Computers: {computers}. {used}."
    kept = [{key: value for key, value in row.items() if key not in ("curve", "versions")} for row in rows]
    return "\n\n".join([*parts, about]), {"machines": machines, "rows": kept}


def claims_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is asked beside the sparse variational process: its loss in half of its seconds to it, and coverage."""
    found = []
    for (_, name, n), own in groups(rows).items():
        here = [row for row in own if row["device"] == "cpu" and "loss" in row]
        peers = [row for row in here if "SVGP" in row["method"]]
        for peer in peers if n >= LEAST_ASKED else []:
            as_good = [
                row
                for row in here
                if row["method"].startswith(("BEMKL", "GPMKL")) and row["loss"] <= peer["loss"] + CLOSE
            ]
            best = min(as_good, key=seconds_of, default=None)
            found.append(
                claim(
                    f"seconds of {best['method'] if best else 'this package'} over those of {peer['method']} at its "
                    f"loss; {name}, {n} samples",
                    ASKED_SECONDS,
                    seconds_of(best) / to_the_score(peer) if best else None,
                )
            )
            if best and "coverage" in best:
                found.append(
                    claim(
                        f"coverage of 95 % intervals of {best['method']} off by, at the loss of {peer['method']}; "
                        f"{name}, {n} samples",
                        1.0,
                        100.0 * abs(best["coverage"] - 0.95),
                        " points",
                    )
                )
    return found


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the loss of every method against its seconds, a panel for each problem."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    found = {
        key: [row for row in own if "loss" in row]
        for key, own in groups(rows).items()
        if key[1] not in REAL_NAMES
    }
    tasks = sorted({task for task, _, _ in found})
    sizes = sorted({n for _, _, n in found})
    labels = list(dict.fromkeys(row["method"] for own in found.values() for row in own))
    labels.sort(key=lambda label: list(FAMILIES).index(family_of(label)))
    styles = {label: (FAMILIES[family_of(label)], MARKERS[_place(labels, label)]) for label in labels}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "peers", "font.size": 9}):
        figure, axes = pyplot.subplots(
            len(tasks), len(sizes), figsize=(3.1 * len(sizes) + 2.6, 2.8 * len(tasks)), squeeze=False
        )
        for i, task in enumerate(tasks):
            for j, n in enumerate(sizes):
                panel = axes[i][j]
                own = next((rows for (kind, _, size), rows in found.items() if (kind, size) == (task, n)), [])
                for row in own:
                    color, marker = styles[row["method"]]
                    on_device = row["device"] == "cuda"
                    curve = curve_of(row)
                    if len(curve) > 1:
                        panel.plot(*zip(*curve, strict=True), color=color, linewidth=0.8, alpha=0.7)
                    panel.plot(
                        *curve[-1],
                        marker,
                        color=color,
                        markersize=6,
                        markerfacecolor="white" if on_device else color,
                    )
                ends = [row["loss"] for row in own]
                if ends:
                    spread = max(max(ends) - min(ends), 0.02)
                    panel.set_ylim(min(ends) - 0.08 * spread, max(ends) + 0.15 * spread)
                panel.set_xscale("log")
                panel.set_title(f"{n:,} samples".replace(",", " "), fontsize=9)
                panel.grid(color="0.9", linewidth=0.6)
                panel.set_axisbelow(True)
            axes[i][0].set_ylabel("log loss" if task == "classification" else "negative log density")
        for panel in axes[-1]:
            panel.set_xlabel("seconds")
        handles = [
            Line2D([], [], color=styles[label][0], marker=styles[label][1], linestyle="none", label=label)
            for label in labels
        ]
        figure.legend(
            handles=handles, loc="center left", bbox_to_anchor=(0.0, 0.5), frameon=False, fontsize=8
        )
        figure.tight_layout(rect=(2.4 / figure.get_figwidth(), 0.0, 1.0, 1.0))
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


REAL_NAMES = ("wdbc", "diabetes")


def family_of(label: str) -> str:
    """Return the beginning of a label that has a color."""
    return next(family for family in FAMILIES if label.startswith(family))


def _place(labels: list[str], label: str) -> int:
    """Return the position of a label among those of its color."""
    own = [other for other in labels if FAMILIES[family_of(other)] == FAMILIES[family_of(label)]]
    return own.index(label) % len(MARKERS)
