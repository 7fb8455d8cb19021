"""Binding a model to its data: every check that can be made before anything compiles, then a `Target`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro import handlers
from numpyro.distributions import MaskedDistribution, Unit
from numpyro.infer.initialization import init_to_uniform

from data import Split
from data.pairs import as_pair, is_pair
from inference.target.arguments import Arguments, settle
from inference.target.data_remarks import refuse_unbounded, remarks
from inference.target.density import Data, Target, latent_sites
from inference.target.plates import subsampled
from inference.target.unstable import log_probs
from models import Network, has_recipe
from models.distributions import single, wrapped
from models.validation import finite_array, lost_digits

__all__ = ["Bound", "NoStart", "bind", "explain_start"]

_RESERVED = ("chain", "draw", "step")
_BLOCK = 2048  # rows whose activations stay in cache, and enough of them to keep the other cores busy
_WHOLE = 20_000  # rows up to which all at once takes little memory


class NoStart(ValueError):
    """No start with a finite density was found."""


class Bound(NamedTuple):
    """A model with its data.

    Attributes:
        target: the log density.
        data: the arguments of its compiled programs.
        observed: the observed values, by site.
        deterministic: the names of the model's deterministic sites.
        notes: what a user should know about the data.
    """

    target: Target
    data: Data
    observed: dict[str, np.ndarray]
    deterministic: tuple[str, ...]
    notes: tuple[str, ...] = ()


def bind(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    temperature: float,
    tempering: str,
    chunk_size: int | None = None,
) -> Bound:
    """Bind a model to its arguments.

    Raises:
        TypeError: if the model is not callable or its arguments have the wrong type.
        ValueError: if the data don't fit the model, or the model can't be run: no observations, nothing to infer, a
            discrete latent site, several subsampled plates, a parameter without a prior, a site name that files can't
            hold.
    """
    if not callable(model):
        raise TypeError(f"model must be a NumPyro model, a function with sample statements, got {type(model).__name__}")
    if not isinstance(model, Hashable):
        raise TypeError(f"model must be hashable to be compiled once, {type(model).__name__} is not; use a function")
    if len(args) == 1 and isinstance(args[0], Split) and isinstance(model, Network):
        _check_table(model, args[0])
    if len(args) == 1 and (isinstance(args[0], Split) or (isinstance(model, Network) and is_pair(args[0]))):
        args = as_pair("run", args[0])
    if isinstance(model, Network):
        args, notes = _network_arguments(model, args)
    else:
        notes = _argument_notes(args)
    arguments, arrays, trace = _traced(model, args)
    in_rows = subsampled(model, trace)
    if in_rows is not None:
        model = in_rows
        arguments, arrays, trace = _traced(model, args)
    _check(trace)
    observed = _observed(model, arguments, arrays, trace)
    target = Target(model, arguments, tempering, block=_block(model, arrays, chunk_size))
    data = Data(arrays, _temperature(temperature))
    if not has_recipe(model):  # a model of the user's own
        target = replace(target.identified(data), exact=_exact(target, data))
    deterministic = tuple(name for name, site in trace.items() if site["type"] == "deterministic")
    return Bound(target, data, observed, deterministic, notes)


def _check_table(model: Network, split: Split) -> None:
    """Raise ValueError if a split of a table has codes, and the network does not take them for codes."""
    schema = split.origin.schema if split.origin is not None else None
    if schema is not None and schema.codes != model.codes:
        raise ValueError(
            f"the inputs of '{split.name}' hold "
            + ("the places of missing numbers" if schema.incomplete else "the codes of categories")
            + ", which a network needs something in front of it for: run models.for_table(model, train)"
        )


def _traced(
    model: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[Arguments, tuple[np.ndarray, ...], dict[str, Any]]:
    """The arguments, split as a compiled program takes them, and the model's trace with them."""
    try:
        return settle(args, partial(_trace, model))
    except TypeError as error:
        if _wide():
            raise _not_wide(error) from error
        raise


def _wide() -> bool:
    return jax.dtypes.canonicalize_dtype(np.float64) == np.float64


def _not_wide(error: Exception) -> ValueError:
    return ValueError(f'the model can\'t run with precision="float64": {str(error).splitlines()[0]}')


def _temperature(temperature: float) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        value = np.asarray(temperature, jax.dtypes.canonicalize_dtype(np.float64))
    if not (np.isfinite(value) and value > np.finfo(value.dtype).tiny):
        raise ValueError(f"temperature must be a number that {value.dtype} can hold, above 0, got {temperature!r}")
    return value


def _exact(target: Target, data: Data) -> bool:
    """Whether the log density can be evaluated in float64: a user's model may insist on float32 somewhere."""
    try:
        position = target.position(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # JAX's, about values that lose precision when stored
            jax.eval_shape(target.exact_log_density, position, data)
    except (TypeError, FutureWarning) as error:
        if _wide():
            raise _not_wide(error) from error
        return False
    return True


def _block(model: Callable[..., Any], arrays: tuple[np.ndarray, ...], chunk_size: int | None) -> int:
    """Rows per block of the log-likelihood; 0 for all rows at once."""
    if not isinstance(model, Network):
        if chunk_size is not None:
            raise ValueError(
                "chunk_size needs a network of models, whose rows are known; for your own NumPyro model leave it out"
            )
        return 0
    rows = len(arrays[0])
    if chunk_size is None:
        fitting = model.architecture.rows_at_once(arrays[0])
        chunk_size = _even(fitting, rows) if fitting else _BLOCK if rows > _WHOLE else rows
    return chunk_size if chunk_size < rows else 0


def _even(size: int, rows: int) -> int:
    """The block nearest to `size`, by a quarter at most, that leaves no rows over, which would be a second program."""
    near = sorted(range(max(1, size - size // 4), size + size // 4 + 1), key=lambda block: abs(block - size))
    return next((block for block in near if rows % block == 0), size)


def _network_arguments(model: Network, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """The validated inputs and targets of a network, and notes on them."""
    if len(args) != 2 or args[1] is None:
        raise ValueError(
            f"a network needs observations: call run(model, x, y, ...) or run(model, split, ...), got {len(args)} "
            f"data argument{'s' * (len(args) != 1)}{' with y=None' if len(args) == 2 else ''}"
        )
    x, y = model.validate(*args, precision="float64" if _wide() else "float32")
    refuse_unbounded(model, x, np.asarray(args[1]))
    named = {} if _wide() else dict(zip("xy", map(np.asarray, args), strict=True))
    lost = {name: lost_digits(name, array) for name, array in named.items()}
    if lost.get("y"):
        try:
            refuse_unbounded(model, x, y)
        except ValueError as error:  # only the rounding to float32 leaves no noise
            raise ValueError(lost["y"]) from error
    return (x, y), tuple(filter(None, lost.values())) + remarks(model, x, y)


def _argument_notes(args: tuple[Any, ...]) -> tuple[str, ...]:
    """Notes on digits that the array arguments of a user's own model lose in float32."""
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(args) if hasattr(leaf, "__array__")]
    if _wide():
        return ()
    for array in arrays:
        narrow = np.iinfo(np.uint32 if array.dtype.kind == "u" else np.int32) if array.dtype.kind in "iu" else None
        if narrow and array.size and not (narrow.min <= array.min() and array.max() <= narrow.max):
            raise ValueError(
                f"an argument of the model has integers from {array.min()} to {array.max()}, which 32 bits don't hold; "
                'convert it to numbers of moderate size, or use precision="float64"'
            )
    found = [lost_digits("an argument of the model", array) for array in arrays if array.dtype.kind == "f"]
    return tuple(text for text in dict.fromkeys(found) if text)


def _started(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model with a key and values for its latent sites, so that it runs; flat priors can't be sampled."""
    return handlers.substitute(handlers.seed(model, jax.random.key(0)), substitute_fn=init_to_uniform(radius=1.0))


def _trace(model: Callable[..., Any], arguments: Arguments, arrays: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """The model's trace with shapes in place of latent values; observed values that are arguments stay as they are."""
    trace: dict[str, Any] = {}

    def abstract(*abstract_arrays: jax.Array) -> None:
        trace.update(handlers.trace(_started(model)).get_trace(*arguments.fill(abstract_arrays)))
        values = {id(tracer): array for tracer, array in zip(abstract_arrays, arrays, strict=True)}
        for site in trace.values():
            site["value"] = values.get(id(site["value"]), site["value"])

    jax.eval_shape(abstract, *arrays)
    return trace


def _observed(
    model: Callable[..., Any], arguments: Arguments, arrays: tuple[np.ndarray, ...], trace: dict[str, Any]
) -> dict[str, np.ndarray]:
    """The checked values of the observed sites; what the model computes, such as log(y), comes from running it."""
    sites = {name: site for name, site in trace.items() if site["type"] == "sample" and site["is_observed"]}
    if any(isinstance(site["value"], jax.core.Tracer) for site in sites.values()):
        values = handlers.trace(_started(model)).get_trace(*arguments.fill(arrays))
        sites = {name: {**site, "value": values[name]["value"]} for name, site in sites.items()}
    return {
        name: _check_observed(name, {**site, "value": np.asarray(site["value"])})
        for name, site in sites.items()
        if site["value"] is not None
    }


def _check(trace: dict[str, Any]) -> None:
    latent = latent_sites(trace)
    observed = {n: site for n, site in trace.items() if site["type"] == "sample" and site["is_observed"]}
    if not observed:
        raise ValueError(
            "the model has no observations: give at least one sample site obs=..., and pass the data it observes to run"
        )
    if not latent:
        raise ValueError("the model has nothing to infer: every sample site is observed")
    for name, site in trace.items():
        if name in _RESERVED and site["type"] in ("sample", "deterministic"):
            raise ValueError(f"the site '{name}' has the name of a dimension of draws; rename it")
        if site["type"] == "param" and any(other.startswith(name.removesuffix("$params") + "/") for other in latent):
            raise ValueError(
                f"'{name}' is the template of a module that random_flax_module, or a function like it, has given "
                "priors to; such modules can't be run as they are: sample the weights by numpyro.sample in the model "
                'and call module.apply({"params": weights}, x), or write the network by models.mlp(...)'
            )
        if site["type"] == "param":
            raise ValueError(f"'{name}' is a param without a prior, which would stay as it is; make it a sample site")
        if "/" in name:
            raise ValueError(
                f"the site '{name}' has a '/' in its name, which netCDF files of draws can't hold; rename it, or give "
                "handlers.scope another divider"
            )
    for name, site in latent.items():
        if site["fn"].support is not None and site["fn"].support.is_discrete:
            what = type(single(site["fn"])).__name__
            raise ValueError(f"the latent site '{name}' is discrete ({what}); sum it out by hand")


def _check_observed(name: str, site: dict[str, Any]) -> np.ndarray:
    """A site's observed value, which must be finite and, where the support is known, in it: NumPyro does not check."""
    value, distribution = site["value"], site["fn"]
    masked = any(isinstance(each, MaskedDistribution) for each in wrapped(distribution))
    if masked or isinstance(distribution, Unit):  # what is masked may be anything
        return value
    value = finite_array(f"the value observed at site '{name}'", value)
    inside = distribution.support(value)
    if not isinstance(inside, jax.core.Tracer) and not np.all(inside):
        row = tuple(int(i) for i in np.argwhere(~np.asarray(inside))[0])
        raise ValueError(
            f"the value observed at site '{name}' must be in its support, {distribution.support}, "
            f"got {value[row[: value.ndim]]} at index {row}"
        )
    return value


def explain_start(target: Target, data: Data, position: dict[str, Any]) -> NoStart:
    """The error for a start without finite density and gradient, which names the sites to blame."""
    sites = target.constrain(position, data)
    by_site, _ = log_probs(target.model, target.arguments.fill(data.arrays), sites)
    bad = {name: float(value) for name, value in by_site.items() if not np.isfinite(value)}
    blame = ", ".join(f"'{name}' (log density {value})" for name, value in bad.items())
    return NoStart(
        "no initial point with finite density and gradient was found in 100 tries; "
        + (f"not finite at the last one: site {blame}; " if bad else "the density was finite, its gradient was not; ")
        + "check the scale of the data, the support of the observed values and the priors"
    )
