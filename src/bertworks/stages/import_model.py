"""import: a folder with pickled weights -> a model folder."""

from typing import Any

from bertworks.core.artifact import Origin, refuse_existing
from bertworks.core.errors import UsageError
from bertworks.core.progress import say
from bertworks.core.settings import as_command, as_json
from bertworks.core.shipped import is_shipped, shown
from bertworks.interop.sentence_transformers import encoder_folder
from bertworks.model.weights import find_pickles
from bertworks.serving.model_folder import open_model, save_model
from bertworks.stages.settings import ImportSettings


def run(settings: ImportSettings) -> dict[str, Any]:
    """Read pickled tensors, and save the model as safetensors with all that belongs to it."""
    refuse_existing(settings.out)
    if is_shipped(settings.folder):
        name = shown(settings.folder)
        raise UsageError(
            f"{name} comes with bertworks and opens as it is (--model {name}); import takes a "
            "folder with pickled weights"
        )
    opened = open_model(settings.folder, pickled=True)
    say(f"weights: {opened.account}")
    files = find_pickles(encoder_folder(settings.folder))
    origin = Origin(
        command=as_command("import", settings),
        settings=as_json(settings),
        inputs={file.name: file for file in files},
    )
    save_model(settings.out, opened.model, opened.tokenizer, origin=origin, recipe=opened.recipe)
    parameters = sum(parameter.numel() for parameter in opened.model.parameters())
    return {"model": str(settings.out), "parameters": parameters}
