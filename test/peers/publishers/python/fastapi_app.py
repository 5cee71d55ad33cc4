# SPDX-License-Identifier: Apache-2.0
"""uvicorn with uvloop, under opentelemetry-instrument: requests take turns on one thread, and hand work to others."""
import asyncio

from fastapi import FastAPI

import truth_log

app = FastAPI()
truth_log.burn_without_span()


@app.get("/render")
async def render():
    for _ in range(5):
        truth_log.burn(0.002)
        await asyncio.sleep(0.0005)
    await asyncio.to_thread(truth_log.burn, 0.005)
    truth_log.burn(0.005)
    return "done"


@app.get("/sync")
def sync():
    truth_log.burn(0.02)
    return "done"


@app.get("/wait")
async def wait():
    await asyncio.sleep(0.02)
    return "done"
