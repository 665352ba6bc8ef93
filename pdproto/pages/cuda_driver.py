"""Calls of the CUDA driver that torch does not offer: memory for other processes, and pinning.

Unlike a call of the runtime, one that fails leaves no error behind that a later call of torch would
raise.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pdproto.pages.tensors import DRIVER

HANDLE_BYTES: Final = 64
PORTABLE: Final = 1  # CU_MEMHOSTREGISTER_PORTABLE: pinned for all devices
PEERS: Final = 1  # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS


class _Handle(ctypes.Structure):
    """CUipcMemHandle, which is passed by value."""

    _fields_ = (("reserved", ctypes.c_char * HANDLE_BYTES),)


class Driver:
    """The driver, for a GPU of this number, as torch counts them. Addresses are integers.

    Every call raises OSError with the name of the call and of its error.
    """

    def __init__(self, gpu: int) -> None:
        self._library: Final = ctypes.CDLL(DRIVER)
        self._gpu: Final = gpu
        self._context: Any = None

    def allocate(self, length: int) -> int:
        """Memory of so many bytes on the GPU, not cleared, from no pool of torch."""
        address = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(length))
        return address.value

    def free(self, address: int) -> None:
        """Give the memory back. Other processes must have closed it."""
        self._do("cuMemFree_v2", ctypes.c_uint64(address))

    def handle(self, address: int) -> bytes:
        """The handle of allocated memory, for `open` in another process."""
        handle = _Handle()
        self._do("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """Map the memory of another process. Returns its address here."""
        if len(handle) != HANDLE_BYTES:
            raise OSError(f"a handle of {len(handle)} bytes, want {HANDLE_BYTES}")
        address = ctypes.c_uint64()
        self._do("cuIpcOpenMemHandle_v2", ctypes.byref(address), _Handle.from_buffer_copy(handle),
                 ctypes.c_uint(PEERS))
        return address.value

    def close(self, address: int) -> None:
        """Unmap the memory of another process."""
        self._do("cuIpcCloseMemHandle", ctypes.c_uint64(address))

    def register(self, address: int, length: int) -> None:
        """Pin host memory."""
        self._do("cuMemHostRegister_v2", ctypes.c_void_p(address), ctypes.c_size_t(length),
                 ctypes.c_uint(PORTABLE))

    def unregister(self, address: int) -> None:
        """Unpin host memory."""
        self._do("cuMemHostUnregister", ctypes.c_void_p(address))

    def _do(self, call: str, *arguments: Any) -> None:
        with self._current():
            self._call(call, *arguments)

    @contextmanager
    def _current(self) -> Iterator[None]:
        """The GPU's context, which torch uses as well, in whatever thread this is."""
        if self._context is None:
            context, device = ctypes.c_void_p(), ctypes.c_int()
            self._call("cuInit", ctypes.c_uint(0))
            self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(self._gpu))
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._context = context
        self._call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _call(self, call: str, *arguments: Any) -> None:
        failed = getattr(self._library, call)(*arguments)
        if failed:
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(failed, ctypes.byref(name))
            raise OSError(f"{call}: {(name.value or b'error %d' % failed).decode()}")
