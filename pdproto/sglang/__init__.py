"""pdproto as a transfer backend of SGLang: `--disaggregation-transfer-backend pdproto`."""
