"""models: the models that come with bertworks, or some folders -> what each of them is."""

from typing import Any

from bertworks.core.shipped import shipped_models
from bertworks.serving.model_facts import facts_of
from bertworks.stages.shipping_settings import ModelsSettings


def run(settings: ModelsSettings) -> dict[str, Any]:
    """Check the files of each model and tell what it is."""
    folders = settings.folders or tuple(shipped_models().values())
    return {"models": [facts_of(folder) for folder in folders]}
