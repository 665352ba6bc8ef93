"""Tests have few states and many plans: Spark compiles them as little as it can."""

import os

os.environ.setdefault(
    "PYSPARK_SUBMIT_ARGS",
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "
    "--conf spark.sql.codegen.wholeStage=false pyspark-shell")
