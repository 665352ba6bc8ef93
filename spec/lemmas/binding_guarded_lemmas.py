"""Lemmas of the binding that hold even where a rank decides for itself."""

from typing import Final

from pdproto.spec.lemmas import binding_lemmas

LEMMAS: Final = binding_lemmas.GUARDED
