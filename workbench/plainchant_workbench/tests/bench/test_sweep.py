"""The benchmark of sweeps: both sides do the same runs, and the figures are of what they did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plainchant.scenario import load, shipped
from plainchant_workbench.lab.sweep import Rate, measure_sweeps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_and_a_pool_are_measured_on_the_same_runs(spark: SparkSession) -> None:
    told: list[str] = []
    rate = measure_sweeps(spark, runs=10, rounds=1, processes=1, progress=told.append)
    assert told == ["warming up", "round 1 of 1"]
    assert 500 < rate.events_per_run < 2_000
    assert rate.spark_runs_per_s > 0
    assert list(rate.to_json()) == ["runs", "events_per_run", "spark_runs_per_s", "pool_runs_per_s", "ratio"]


def test_the_ratio_says_how_much_of_the_pools_rate_spark_has() -> None:
    assert Rate(100, 1_000, 45.0, 50.0).to_json()["ratio"] == 0.9


def test_the_scenario_of_sweeps_draws_its_faults_from_the_seed() -> None:
    scenario = load(shipped()["sweep-faults"])
    assert scenario.fault == ()
    assert scenario.random.crash > 0
