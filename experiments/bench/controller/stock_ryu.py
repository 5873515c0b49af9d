"""The peer: a Ryu application that knows all connections, written as such applications usually are.

    python -m experiments.bench.controller.stock_ryu PORT [--no-flow-mods]

It takes packets apart with Ryu's packet library, keeps a dict of 5-tuples, and installs a flow
entry per direction of a new connection with Ryu's own message objects.
"""

import sys

from controller.runtime.launcher import prepare_ryu

prepare_ryu()

from ryu.base.app_manager import AppManager, RyuApp  # noqa: E402
from ryu.cfg import CONF  # noqa: E402
from ryu.controller import ofp_event  # noqa: E402
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls  # noqa: E402
from ryu.lib.packet import ethernet, ipv4, packet, tcp  # noqa: E402
from ryu.ofproto import ofproto_v1_3  # noqa: E402


class Stock(RyuApp):
    """Follows connections from SYN to FIN."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 - Ryu's interface
    flow_mods = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.connections: dict[tuple[str, int, str, int], set[str]] = {}
        self.ports: dict[str, int] = {}

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event: ofp_event.EventOFPPacketIn) -> None:
        """Enter a copied segment; flood anything else, as a switch would."""
        message = event.msg
        in_port = message.match["in_port"]
        frame = packet.Packet(message.data)
        self.ports[frame.get_protocol(ethernet.ethernet).src] = in_port
        ip = frame.get_protocol(ipv4.ipv4)
        segment = frame.get_protocol(tcp.tcp)
        if ip is None or segment is None:
            self.flood(message, in_port)
            return
        key = ip.src, segment.src_port, ip.dst, segment.dst_port
        answer_key = ip.dst, segment.dst_port, ip.src, segment.src_port
        if segment.has_flags(tcp.TCP_SYN, tcp.TCP_ACK):
            if answer_key in self.connections and self.flow_mods:
                self.install(message.datapath, key, in_port)
                self.install(message.datapath, answer_key, in_port)
        elif segment.has_flags(tcp.TCP_SYN):
            self.connections[key] = set()
        elif segment.has_flags(tcp.TCP_FIN):
            known = key if key in self.connections else answer_key
            finished = self.connections.get(known)
            if finished is not None:
                finished.add(ip.src)
                if len(finished) == 2:
                    del self.connections[known]

    def install(self, datapath: object, key: tuple[str, int, str, int], port: int) -> None:
        """Install a flow entry for one direction of a connection."""
        parser, ofproto = datapath.ofproto_parser, datapath.ofproto  # type: ignore[attr-defined]
        match = parser.OFPMatch(
            eth_type=0x0800,
            ip_proto=6,
            ipv4_src=key[0],
            tcp_src=key[1],
            ipv4_dst=key[2],
            tcp_dst=key[3],
        )
        actions = [parser.OFPActionOutput(port)]
        instructions = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)]
        datapath.send_msg(  # type: ignore[attr-defined]
            parser.OFPFlowMod(
                datapath=datapath,
                priority=100,
                match=match,
                instructions=instructions,
                idle_timeout=60,
            )
        )

    def flood(self, message: object, in_port: int) -> None:
        """Send a frame out of all ports."""
        datapath = message.datapath  # type: ignore[attr-defined]
        parser, ofproto = datapath.ofproto_parser, datapath.ofproto
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath,
                buffer_id=ofproto.OFP_NO_BUFFER,
                in_port=in_port,
                actions=[parser.OFPActionOutput(ofproto.OFPP_FLOOD)],
                data=message.data,  # type: ignore[attr-defined]
            )
        )


def main() -> None:
    """Entry point."""
    port, *options = sys.argv[1:]
    Stock.flow_mods = "--no-flow-mods" not in options
    CONF.set_override("ofp_listen_host", "127.0.0.1")
    CONF.set_override("ofp_tcp_listen_port", int(port))
    # By name, because Ryu looks an application's handlers up in its module.
    sys.modules["experiments.bench.controller.stock_ryu"] = sys.modules[__name__]
    AppManager.run_apps(["experiments.bench.controller.stock_ryu"])


if __name__ == "__main__":
    main()
