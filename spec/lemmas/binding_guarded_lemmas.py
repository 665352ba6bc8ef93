"""What holds of the binding also where a rank decides for itself."""

from typing import Final

from pdproto.spec.lemmas import binding_lemmas

LEMMAS: Final = binding_lemmas.GUARDED
