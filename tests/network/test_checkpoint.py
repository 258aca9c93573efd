"""Model files: what goes in comes out, and what is no model is refused with a reason."""

from __future__ import annotations

import json
import pickle

import pytest
import safetensors.torch
import torch

from shapetailor.network import checkpoint
from shapetailor.network.checkpoint import load_model, read_model, save_model, shipped_models
from shapetailor.network.stdnn import STDNN, STDNNConfig
from shapetailor.segmentation.usage import Usage


@pytest.fixture
def net():
    torch.manual_seed(0)
    net = STDNN(STDNNConfig(widths=(4, 3), scales=(1.0, 2.0)))
    net.set_statistics(torch.rand(net.config.channels), torch.rand(net.config.channels) + 0.5)
    return net


@pytest.fixture
def path(tmp_path, net):
    path = tmp_path / "model.safetensors"
    save_model(path, net, {"seed": 3, "data": {"fingerprint": "abc"}})
    return path


def with_header(path, **changes):
    """Rewrite a model file with other entries in its header."""
    with safetensors.safe_open(path, framework="pt") as file:
        header, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    content = {**json.loads(header["shapetailor"]), **changes}
    safetensors.torch.save_file(tensors, path, {"shapetailor": json.dumps(content)})


def test_weights_statistics_config_and_metadata_come_back(path, net):
    loaded, metadata = load_model(path)
    assert loaded.config == net.config
    assert metadata == {"seed": 3, "data": {"fingerprint": "abc"}}
    assert not loaded.training
    for (name, expected), (_, found) in zip(net.state_dict().items(), loaded.state_dict().items(), strict=True):
        assert torch.equal(found, expected), name


def test_descriptors_are_bit_identical_after_a_round_trip(path, net):
    image, labels = net.prepare(torch.rand(1, 3, 8, 8)), torch.zeros(1, 8, 8, dtype=torch.long)
    assert torch.equal(load_model(path)[0](image, labels), net(image, labels))


def test_the_same_model_gives_the_same_bytes(tmp_path, path, net):
    save_model(tmp_path / "again.safetensors", net, {"data": {"fingerprint": "abc"}, "seed": 3})
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, net, monkeypatch):
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_model(path, net, {"seed": 4})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"model\.safetensors: truncated, or no safetensors file"):
        load_model(path)


def test_a_foreign_safetensors_file_is_refused(path):
    safetensors.torch.save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match="not a model written by shapetailor"):
        load_model(path)


def test_a_newer_file_is_refused_with_advice(path):
    with_header(path, format_version=99)
    with pytest.raises(ValueError, match=r"newer shapetailor .*99.* update"):
        load_model(path)


@pytest.mark.parametrize("entry", ["[]", "3", '"text"', "null", "[" * 100_000, "{}", '{"format": ["model"]}'])
def test_a_header_of_another_shape_is_refused_with_the_files_name(path, entry):
    safetensors.torch.save_file({"weight": torch.zeros(3)}, path, {"shapetailor": entry})
    with pytest.raises(ValueError, match=r"model\.safetensors: "):
        load_model(path)


@pytest.mark.parametrize("version", [None, "1", [1], True, 1.5])
def test_a_format_version_that_is_no_number_is_refused(path, version):
    with_header(path, format_version=version)
    with pytest.raises(ValueError, match=r"model\.safetensors: its format_version must be"):
        load_model(path)


@pytest.mark.parametrize(
    "changes", [{"config": []}, {"config": None}, {"metadata": 3}, {"metadata": None}, {"usage": [1]}, {"usage": None}]
)
def test_entries_of_another_kind_are_refused_with_the_files_name(path, changes):
    with_header(path, **changes)
    with pytest.raises(ValueError, match=r"model\.safetensors: .* must be (a mapping|mappings)"):
        load_model(path)


def test_a_config_that_nests_for_ever_is_refused(path, net):
    config = net.config.to_dict()
    for _ in range(300):
        config = {**net.config.to_dict(), "fine": config}
    with_header(path, config=config)
    with pytest.raises(ValueError, match=r"model\.safetensors: "):
        load_model(path)


def test_flipped_bits_in_the_weights_are_noticed(path):
    content = bytearray(path.read_bytes())
    content[-10] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"model\.safetensors: corrupt, its weights are not those"):
        load_model(path)


def test_weights_that_are_not_finite_are_blamed_on_the_file(path, net):
    net.layers[0].weight.data[0] = torch.nan
    save_model(path, net)
    with pytest.raises(ValueError, match=r"model\.safetensors: corrupt, .*NaN"):
        load_model(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"widths": [10**6, 10**6]},
        {"premix": 10**9},
        {"scales": [1.0] * 10**5},
        {"resolution": 10**400},
        {"tol": 10**400},
    ],
    ids=["widths", "premix", "scales", "resolution", "tol"],
)
def test_sizes_beyond_reason_are_refused_before_anything_is_allocated(path, net, changes, monkeypatch):
    with_header(path, config={**net.config.to_dict(), **changes})
    monkeypatch.setattr(STDNN, "__init__", lambda *_: pytest.fail("a network was made"))
    with pytest.raises(ValueError, match=r"model\.safetensors: .*(at most|1 to|between)"):
        load_model(path)


@pytest.mark.parametrize("name", shipped_models())
def test_shipped_models_carry_their_checksum(name):
    path = checkpoint._locate(name)
    tensors, header = checkpoint.read_tensors(path, checkpoint.FORMAT, checkpoint.FORMAT_VERSION)
    assert header["sha256"] == checkpoint.checksum(tensors)


def test_a_config_that_does_not_fit_the_weights_is_refused(path, net):
    with_header(path, config={**net.config.to_dict(), "widths": [5, 3]})
    with pytest.raises(ValueError, match="do not fit"):
        load_model(path)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_are_refused_whatever_their_name(path, protocol):
    path.write_bytes(pickle.dumps({"weight": [1.0]}, protocol))
    with pytest.raises(ValueError, match="refused"):
        load_model(path)


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
def test_torch_archives_are_refused_whatever_their_name(tmp_path, name):
    torch.save({"weight": torch.zeros(2)}, tmp_path / name)
    with pytest.raises(ValueError, match="refused"):
        load_model(tmp_path / name)


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path, net):
    # 0x0480 = 1152 bytes of header are the bytes 80 04, with which a pickle begins.
    path = tmp_path / "model.safetensors"
    for padding in range(1152):
        save_model(path, net, {"note": "x" * padding})
        if path.read_bytes()[:2] in checkpoint._PICKLE_MAGIC:
            assert load_model(path)[1] == {"note": "x" * padding}
            return
    pytest.fail("no header of this length came about")


def test_an_unknown_name_lists_the_shipped_models():
    with pytest.raises(FileNotFoundError, match="no model is named 'nonesuch'; shipped models") as error:
        load_model("nonesuch")
    assert all(name in str(error.value) for name in shipped_models())


def test_a_shipped_name_finds_the_packages_file(tmp_path, net, monkeypatch):
    (tmp_path / "models").mkdir()
    save_model(tmp_path / "models" / "small.safetensors", net)
    monkeypatch.setattr(checkpoint.resources, "files", lambda _: tmp_path)
    assert shipped_models() == ["small"]
    assert load_model("small")[0].config == net.config


def test_a_missing_file_and_a_wrong_suffix_are_named(tmp_path, net):
    with pytest.raises(FileNotFoundError, match=r"absent\.safetensors"):
        load_model(tmp_path / "absent.safetensors")
    with pytest.raises(ValueError, match=r"ends with \.safetensors"):
        save_model(tmp_path / "model.bin", net)


@pytest.mark.parametrize("name", shipped_models())
def test_every_shipped_model_loads(name):
    net, metadata = load_model(name)
    assert metadata["data"]["fingerprint"]
    assert net.config.dimension > 1


@pytest.mark.parametrize(
    ("name", "usage"), [("texture", Usage.usual(4, two_networks=True)), ("paper", Usage.usual(1, two_networks=False))]
)
def test_shipped_models_say_how_they_are_used(name, usage):
    assert Usage.from_dict(read_model(name).usage) == usage


def test_a_file_says_how_its_network_is_used_or_nothing(tmp_path, net, path):
    assert read_model(path).usage == {}
    usage = Usage.usual(4, two_networks=True)
    save_model(tmp_path / "used.safetensors", net, usage=usage.to_dict())
    assert Usage.from_dict(read_model(tmp_path / "used.safetensors").usage) == usage


def test_a_file_of_the_other_kind_is_called_what_it_is(path):
    with_header(path, format="classifier")
    with pytest.raises(ValueError, match=r"model\.safetensors: holds a classifier, but not a model"):
        load_model(path)
