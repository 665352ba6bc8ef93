"""Why a life gets the KV of its prompt where its caller names the request, at any size."""

from typing import Final

from pdproto.spec.lemmas import binding_named_lemmas
from pdproto.spec.lemmas.binding_prompts_lemmas import SENT

LEMMAS: Final = (*binding_named_lemmas.LEMMAS, SENT)
