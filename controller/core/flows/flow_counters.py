"""The flow counters that switches hold for connections: started, moved, stopped."""

from controller.core.desired.tables import Tables
from controller.core.flows.flow_table import GlobalFlowTable
from controller.core.flows.host_pairs import Connection, ConnectionRecord
from controller.core.flows.polling import Polling
from controller.model.entries import FlowCounter
from controller.model.flow import FlowKey


class FlowCounters:
    """Keeps the GVT, the entries of switches and `polling` in step about who counts what."""

    def __init__(self, table: GlobalFlowTable, tables: Tables, polling: Polling) -> None:
        self._table = table
        self._tables = tables
        self._polling = polling

    def start(self, connection: Connection, record: ConnectionRecord) -> None:
        """Count a connection at the switches of the record."""
        self._table.count(connection, record)
        for switch in record.switches:
            self._polling.opened(switch)
            for lane in connection.pair.lanes:
                key, path_id = FlowKey.unpack(lane.key(connection)), connection.pair.path_id
                self._tables.put(switch, FlowCounter(key, lane.forward, path_id))

    def stop(self, connection: Connection, record: ConnectionRecord) -> None:
        """Remove the counters of a connection."""
        for switch in record.switches:
            self._polling.closed(switch)
            for lane in connection.pair.lanes:
                entry = FlowCounter(FlowKey.unpack(lane.key(connection)), lane.forward)
                self._tables.remove(switch, entry.key)

    def move(
        self,
        connection: Connection,
        record: ConnectionRecord,
        switches: tuple[int, ...],
        now_ns: int,
    ) -> None:
        """Count a connection at these switches instead, where the counters start at zero."""
        self.stop(connection, record)
        for flow in (record.forward, record.reverse):
            flow.offset_bytes = flow.volume_bytes
            flow.grown_ns = now_ns
            flow.packets = 0
        self.start(connection, ConnectionRecord(switches, record.forward, record.reverse))
