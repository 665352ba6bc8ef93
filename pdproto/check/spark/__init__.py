"""A search whose states are in Spark, on one machine or on a cluster."""
