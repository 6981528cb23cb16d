"""A follower that reads a source of fixes, and is connected to the broker."""

import asyncio
import contextlib
import math
import time

import msgspec

from nearcast.client.api.node_follow import FixSource
from nearcast.client.api.subscription_request import SubscriptionRequest
from nearcast.client.location.fix_sources import as_they_come
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import Stream, StreamContext
from nearcast.core.model import Position
from nearcast.core.model.geometry.position import position
from nearcast.core.relationships.silence.follow_messages import FollowOrders
from nearcast.core.relationships.silence.follower import Follower

FOLLOW = "$me/follow"
REPORT = f"{FOLLOW}/report"


class Following:
    """A follower that reads a source, and is connected to the broker."""

    def __init__(self, context: StreamContext, accuracy_m: float | None) -> None:
        self._context = context
        node = context.exchange.client_id.partition("~")[0]
        self._follower = Follower(node, accuracy_m)
        self.reports = 0
        self._has_orders = asyncio.Event()
        self._is_due = asyncio.Event()
        self._offset_s = time.time() - _loop_time()
        self._run = 0

    @property
    def fixes(self) -> int:
        """The number of fixes so far."""
        return self._follower.fixes

    async def run(self, source: FixSource) -> None:
        """Read the source to its end."""
        request = SubscriptionRequest(pattern=FOLLOW, qos=1)
        async with Stream(self._context, request, _orders) as stream:
            reading = asyncio.create_task(self._read(source))
            tasks = [
                reading,
                asyncio.create_task(self._obey(stream)),
                asyncio.create_task(self._report()),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    if not task.done():
                        task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for task in tasks:
                if not task.cancelled():
                    # The first that failed tells why.
                    task.result()
            await self._send(msgspec.json.encode(self._follower.end()))

    async def _read(self, source: FixSource) -> None:
        await self._has_orders.wait()
        async with contextlib.aclosing(as_they_come(source)) as fixes:
            async for fix in fixes:
                at = fix if isinstance(fix, Position) else position(fix[0], fix[1])
                self._follower.fix(at, self._now())
                self._is_due.set()

    async def _obey(self, stream: Stream[FollowOrders]) -> None:
        async for orders in stream:
            if orders.run != self._run:
                self._run = orders.run
                if orders.time:
                    self._offset_s = orders.time - _loop_time()
            self._follower.obey(orders, self._now())
            self._has_orders.set()
            self._is_due.set()

    async def _report(self) -> None:
        follower = self._follower
        while True:
            wait_s = follower.wake_at - self._now()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(wait_s, 0.0) if wait_s < math.inf else None):
                    await self._is_due.wait()
            self._is_due.clear()
            follower.elapse(self._now())
            while (report := follower.take_report()) is not None:
                await self._send(msgspec.json.encode(report))

    async def _send(self, payload: bytes) -> None:
        await self._context.commands.send(REPORT, payload)
        self.reports += 1

    def _now(self) -> float:
        return _loop_time() + self._offset_s


def _orders(event: Received) -> FollowOrders | None:
    try:
        return msgspec.json.decode(event.payload, type=FollowOrders)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
