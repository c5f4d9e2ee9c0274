"""Tests of metrics, detections and recovery."""
