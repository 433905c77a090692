"""Table of data sets: names, true sizes, classes, sources and the sizes that papers print.

Every size below is the size of the data themselves. Published tables differ from it in small ways (an id
column kept, an attribute dropped, a typing error); the column ``paper_sizes`` says how, so that no reader has
to wonder.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TABLE", "Entry"]


class Entry(NamedTuple):
    """Facts about one data set."""

    name: str
    title: str
    n_samples: int
    n_features: int
    classes: tuple[
        tuple[int | str, str, int], ...
    ]  # (label, name, samples), in label order; () = regression or times
    openml: tuple[int, ...] = ()  # OpenML ids
    uci_page: str = ""  # name of the set at the UCI repository, for those read from a file
    paper_sizes: str = ""  # what papers print where it differs, and their names for the set
    notes: str = ""
    train_counts: tuple[int, ...] = ()  # class counts of the published training part, where there is one
    n_events: int = 0  # of times to an event, some of them censored; 0 = other targets

    @property
    def bundled(self) -> bool:
        """Whether scikit-learn or this package ships the set, so that no download is needed."""
        return self.name in BUNDLED + SHIPPED

    @property
    def source(self) -> str:
        """Source of the set when no local folder holds it."""
        if self.bundled:
            return "lifelines, in this package" if self.name in SHIPPED else "scikit-learn"
        if self.openml:
            return "OpenML " + ",".join(map(str, self.openml))
        return "UCI file" if self.uci_page else "local folder"

    @property
    def n_train(self) -> int:
        """Rows of the published training part; 0 where there is none."""
        return sum(self.train_counts)

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for regression and times."""
        return len(self.classes)


SHIPPED = ("gbsg2", "lung")
BUNDLED = ("wdbc", "iris", "wine", "digits", "diabetes")


def _binary(negative: str, n_negative: int, positive: str, n_positive: int):
    return ((-1, negative, n_negative), (1, positive, n_positive))


def _digits(*counts: int):
    return tuple((digit, str(digit), count) for digit, count in enumerate(counts))


_ENTRIES = (
    Entry(
        "wdbc",
        "Wisconsin diagnostic breast cancer",
        569,
        30,
        _binary("benign", 357, "malignant", 212),
        notes="Thirty numbers describing cell nuclei. Not `breast_wisconsin` (nine grades from 1 to 10).",
    ),
    Entry("iris", "Iris flowers", 150, 4, ((0, "setosa", 50), (1, "versicolor", 50), (2, "virginica", 50))),
    Entry("wine", "Italian wines", 178, 13, ((0, "class_0", 59), (1, "class_1", 71), (2, "class_2", 48))),
    Entry(
        "digits",
        "Hand-written digits, 8 x 8 pixels, as six views",
        1797,
        156,
        _digits(178, 182, 177, 183, 181, 182, 181, 179, 174, 180),
        notes="64 pixels of scikit-learn's digits and five views computed from them.",
    ),
    Entry(
        "diabetes",
        "Diabetes progression after one year (regression)",
        442,
        10,
        (),
        notes="Features in their original units. What LD-MKL calls Diabetes is `pima`.",
    ),
    Entry(
        "gbsg2",
        "German Breast Cancer Study Group 2 (survival)",
        686,
        8,
        (),
        notes="Days without recurrence of women with node-positive breast cancer.",
        n_events=299,
    ),
    Entry(
        "lung",
        "Lung cancer, North Central Cancer Treatment Group (survival)",
        228,
        8,
        (),
        notes="Days to death; NaN stands for what was not recorded.",
        n_events=165,
    ),
    Entry(
        "breast_wisconsin",
        "Wisconsin breast cancer (original)",
        683,
        9,
        _binary("benign", 444, "malignant", 239),
        openml=(15,),
        paper_sizes="683x10 LD-MKL, 699x9 OBMKL",
        notes="The 16 of 699 rows with a missing value are dropped (OBMKL's paper counts them); LD-MKL's "
        "counts the "
        "id column as a feature.",
    ),
    Entry(
        "breast_ljubljana",
        "Ljubljana breast cancer recurrence",
        277,
        9,
        _binary("no recurrence", 196, "recurrence", 81),
        openml=(13,),
        paper_sizes="Breast of PrimalMKL",
        notes="The 9 of 286 rows with a missing value are dropped; levels are coded 0, 1, ... in "
        "interval order "
        "(age, tumor_size, inv_nodes, deg_malig) or alphabetical order (the others).",
    ),
    Entry(
        "bupaliver",
        "BUPA liver disorders",
        345,
        6,
        _binary("selector 2", 200, "selector 1", 145),
        openml=(8,),
        paper_sizes="345x5 PrimalMKL (Liver)",
        notes="`selector` marks a train/test split; the papers all use it as the class, and so do we.",
    ),
    Entry(
        "pima",
        "Pima Indians diabetes",
        768,
        8,
        _binary("tested negative", 500, "tested positive", 268),
        openml=(37,),
        paper_sizes="769x8 OBMKL",
        notes="LD-MKL calls it Diabetes, PrimalMKL Diabetis. Zeros stand for missing measurements in "
        "several columns, and are left as they are.",
    ),
    Entry(
        "heart_statlog",
        "Statlog heart disease",
        270,
        13,
        _binary("absent", 150, "present", 120),
        openml=(53,),
        paper_sizes="270x28 BEMKL (one-hot)",
        notes="`one_hot=True` gives the 28 features of BEMKL: sex 2, cp 4, fbs 2, restecg 3, exang 2, "
        "slope 3, ca 4, "
        "thal 3 and five numbers.",
    ),
    Entry(
        "ionosphere",
        "Radar returns from the ionosphere",
        351,
        33,
        _binary("bad", 126, "good", 225),
        openml=(59,),
        notes="The second of 34 columns is constant and dropped, as the papers do.",
    ),
    Entry(
        "sonar",
        "Sonar: mines against rocks",
        208,
        60,
        _binary("rock", 97, "mine", 111),
        openml=(40,),
        paper_sizes="210x59 PrimalMKL",
    ),
    Entry(
        "australian",
        "Australian credit approval",
        690,
        14,
        _binary("0", 383, "1", 307),
        openml=(40981,),
        uci_page="Statlog (Australian Credit Approval), file australian.dat",
        paper_sizes="690x13 PrimalMKL",
    ),
    Entry(
        "ecoli",
        "Protein localization sites in E. coli",
        336,
        7,
        tuple(
            (code, name, count)
            for code, (name, count) in enumerate(
                {"cp": 143, "im": 77, "imL": 2, "imS": 2, "imU": 35, "om": 20, "omL": 5, "pp": 52}.items()
            )
        ),
        openml=(39,),
    ),
    Entry(
        "glass",
        "Glass identification",
        214,
        9,
        (
            (1, "building windows, float", 70),
            (2, "building windows, non-float", 76),
            (3, "vehicle windows, float", 17),
            (5, "containers", 13),
            (6, "tableware", 9),
            (7, "headlamps", 29),
        ),
        openml=(41,),
    ),
    Entry(
        "wpbc",
        "Wisconsin prognostic breast cancer",
        194,
        33,
        _binary("no recurrence", 148, "recurrence", 46),
        uci_page="Breast Cancer Wisconsin (Prognostic), file wpbc.data",
        paper_sizes="194x32 BEMKL (no time)",
        notes="The 4 of 198 rows without a lymph node count are dropped. The first feature is `time`, "
        "which BEMKL "
        "leaves out: `data[:, 1:]`.",
    ),
    Entry(
        "german_numeric",
        "German credit, numeric version",
        1000,
        24,
        _binary("bad", 300, "good", 700),
        uci_page="Statlog (German Credit Data), file german.data-numeric",
        notes="LIBSVM's copy has the opposite sign (+1 = bad).",
    ),
    Entry(
        "mushrooms",
        "Mushrooms, edible or poisonous",
        8124,
        112,
        _binary("edible", 4208, "poisonous", 3916),
        openml=(24,),
        paper_sizes="8192x112 LD-MKL",
        notes="Nominal attributes one-hot, `stalk-root` (with missing values) dropped.",
    ),
    Entry(
        "a9a",
        "Adult income, 123 binary features",
        48842,
        123,
        _binary("at most 50K", 37155, "over 50K", 11687),
        openml=(1430,),
        paper_sizes="32561x123 LD-MKL (train)",
        train_counts=(24720, 7841),
    ),
    Entry(
        "mfeat",
        "Multiple features of 2000 hand-written numerals, six views",
        2000,
        649,
        _digits(*[200] * 10),
        openml=(12, 14, 16, 18, 20, 22),
    ),
    Entry(
        "usps",
        "USPS zip code digits, 16 x 16 pixels in [-1, 1]",
        9298,
        256,
        _digits(1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821),
        openml=(41082,),
        notes="Pixels are rounded to three decimals.",
        train_counts=(1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
    ),
    Entry(
        "banana",
        "Banana-shaped classes",
        5300,
        2,
        _binary("-1", 2924, "1", 2376),
        openml=(1460,),
        notes="Coordinates carry three significant digits.",
    ),
    Entry(
        "twonorm",
        "Twonorm, the published sample",
        7400,
        20,
        _binary("mean -2/sqrt(20)", 3697, "mean +2/sqrt(20)", 3703),
        openml=(1507,),
        notes="Same coding as `make_twonorm`.",
    ),
    Entry(
        "ringnorm",
        "Ringnorm, the published sample",
        7400,
        20,
        _binary("inner", 3736, "wide", 3664),
        openml=(1496,),
        notes="Every column has mean 0 and variance 1 (`make_ringnorm` draws the unscaled variables).",
    ),
    Entry(
        "waveform",
        "Waveform, the published sample",
        5000,
        21,
        _binary("classes 1 and 3", 3353, "class 2", 1647),
        notes="`target_multiclass` holds the three classes, numbered as `make_waveform` does.",
    ),
    Entry(
        "titanic",
        "Titanic: who survived",
        2201,
        3,
        _binary("died", 1490, "survived", 711),
        openml=(40704,),
        notes="Class, age and sex, standardized; only 14 distinct rows.",
    ),
    Entry(
        "thyroid",
        "Thyroid function (new-thyroid)",
        215,
        5,
        _binary("normal", 150, "hyper or hypo", 65),
        openml=(40682,),
        notes="`target_multiclass` holds the three diagnoses.",
    ),
    Entry(
        "splice",
        "Splice junctions in DNA",
        3175,
        60,
        _binary("neither", 1648, "junction", 1527),
        openml=(46,),
        notes="Letters A, C, G, T are coded 0 to 3 (`one_hot=True`: 240 columns); the 15 of 3190 rows "
        "with other letters "
        "are dropped. `target_multiclass` holds EI, IE and N.",
    ),
    Entry(
        "flare",
        "Solar flares, the raw table",
        1066,
        11,
        tuple((z, z, n) for z, n in zip("BCDEFH", (147, 211, 239, 95, 43, 331), strict=True)),
        notes="Text columns; the target is the Zurich class. The binary target of Raetsch's "
        "`flare-solar` cannot be "
        "derived from this table. `one_hot=True` gives numbers.",
    ),
    Entry(
        "image",
        "Image segmentation",
        2310,
        18,
        _binary("cement, grass or window", 990, "brickface, foliage, path or sky", 1320),
        openml=(36,),
        paper_sizes="2086x18 Raetsch",
        notes="The constant `region_pixel_count` is dropped; Raetsch also drops repeated rows. "
        "`target_multiclass` holds the seven classes.",
    ),
)

TABLE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
