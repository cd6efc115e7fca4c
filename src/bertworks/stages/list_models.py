"""models: the models that come with bertworks, or some folders -> what each of them is."""

from typing import Any

from bertworks.core.errors import ArtifactError, FoundError
from bertworks.core.shipped import shipped_models
from bertworks.serving.model_facts import facts_of
from bertworks.stages.shipping_settings import ModelsSettings


def run(settings: ModelsSettings) -> dict[str, Any]:
    """Check the files of each model and tell what it is."""
    rows, damaged = [], list[str]()
    for folder in settings.folders or tuple(shipped_models().values()):
        try:
            rows.append(facts_of(folder))
        except ArtifactError as error:
            damaged.append(str(error))
    if damaged:
        raise FoundError("; ".join(damaged), result={"models": rows} if rows else {})
    return {"models": rows}
