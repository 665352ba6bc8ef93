"""The data path under serving engines: items of several components, of which a rank has a share.

Nothing here knows an engine. pdproto/sglang and pdproto/vllm say what their pools are made of.
"""
