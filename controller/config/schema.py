"""The configuration: one typed YAML file. Every key has a default; unknown keys are errors."""

from pydantic import Field, field_validator

from controller.config.errors import ConfigError
from controller.config.fields import Section
from controller.config.sections.bandwidth import BandwidthSection
from controller.config.sections.budgets import BudgetsSection
from controller.config.sections.classifier import ClassifierSection
from controller.config.sections.fabric import FabricSection
from controller.config.sections.log import Log
from controller.config.sections.northbound import Northbound
from controller.config.sections.openflow import OpenFlow
from controller.config.sections.policies import PolicyRule
from controller.config.sections.protection import ProtectionSection
from controller.config.sections.regulation import RegulationSection
from controller.config.sections.standby import StandbySection
from controller.config.sections.tls import TlsSection
from controller.core.bandwidth.announced import BandwidthSettings
from controller.core.congestion.egress_ports import PortOverride
from controller.core.congestion.regulator import RegulatorSettings, Scheme, SchemeOverride
from controller.core.congestion.windows import PortLimits, WindowRules
from controller.core.engine import EngineSettings
from controller.core.flows.classifier import Classifier
from controller.core.flows.connections import ConnectionSettings
from controller.core.hosts.port_security import BoundHost, PortSecuritySettings
from controller.core.hosts.resolution import ResolverSettings


class Config(Section):
    """Rates are in bit/s, sizes in bytes, times in nanoseconds, once they are read."""

    openflow: OpenFlow = OpenFlow()
    fabric: FabricSection = FabricSection()
    classifier: ClassifierSection = ClassifierSection()
    regulation: RegulationSection = RegulationSection()
    policies: tuple[PolicyRule, ...] = Field(
        default=(),
        description=(
            "connections that are treated differently: subnet, port, treatment (exempt, protect "
            "or background); the first that fits decides, and those that exempt go first"
        ),
    )
    budgets: BudgetsSection = BudgetsSection()
    bandwidth: BandwidthSection = BandwidthSection()
    protection: ProtectionSection = ProtectionSection()
    northbound: Northbound = Northbound()
    log: Log = Log()
    tls: TlsSection = TlsSection()
    standby: StandbySection = StandbySection()

    @field_validator("policies")
    @classmethod
    def _exemptions_first(cls, policies: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
        """The switches let exempted connections by before anything else is looked at."""
        exempts = [policy.treatment == "exempt" for policy in policies]
        late = next((i for i in range(1, len(exempts)) if exempts[i] and not exempts[i - 1]), None)
        if late is not None:
            raise ValueError(f"number {late} exempts; put it before those that do not")
        return policies

    def require_transport(self) -> None:
        """Raises ConfigError if it asks for TLS and does not say with what."""
        for key, listen in (
            ("openflow.listen", self.openflow.listen),
            ("standby.listen", self.standby.listen),
        ):
            if listen is not None and listen.transport == "ssl" and not self.tls.given:
                raise ConfigError(
                    f"{key}: {listen} needs tls.key, tls.certificate and tls.ca; "
                    f"where nothing is to be protected, write tcp:{str(listen)[4:]}"
                )

    def engine_settings(self) -> EngineSettings:
        """What the core needs of it."""
        fabric, classifier, regulation = self.fabric, self.classifier, self.regulation
        limits = PortLimits(fabric.link_capacity, fabric.rtt, fabric.egress_buffer)
        return EngineSettings(
            connections=ConnectionSettings(
                Classifier(
                    classifier.background_bytes,
                    classifier.background_age,
                    # The paper knows no way back.
                    None if regulation.scheme is Scheme.SDTCP else classifier.quiet,
                ),
                classifier.poll_interval,
                classifier.expiry,
                classifier.counted_per_switch,
                self.log.connections,
                classifier.dormant,
                per_port=fabric.connections_per_port,
            ),
            regulator=RegulatorSettings(
                regulation.scheme,
                regulation.window_ttl,
                WindowRules(regulation.buffer_share, regulation.floor_segments),
                regulation.credit_rules(),
                regulation.repeat_notices,
                tuple(
                    SchemeOverride(one.scheme, one.switch, one.port) for one in regulation.schemes
                ),
                regulation.accounts,
            ),
            limits=limits,
            overrides=tuple(
                PortOverride(
                    queue.switch, queue.port, queue.capacity, queue.rtt, queue.egress_buffer
                )
                for queue in fabric.queues
            ),
            link_timeout_ns=fabric.link_timeout,
            control_grace_ns=fabric.control_grace,
            switch_grace_ns=fabric.switch_grace,
            audit_interval_ns=self.budgets.audit_interval,
            policies=tuple(policy.rule() for policy in self.policies),
            resolver=ResolverSettings(
                fabric.host_age,
                fabric.flood_rate,
                PortSecuritySettings(
                    fabric.hosts_per_port,
                    fabric.addresses_per_port,
                    fabric.host_moves,
                    tuple(
                        BoundHost(host.mac, host.switch, host.port) for host in fabric.bound_hosts
                    ),
                ),
            ),
            bandwidth=BandwidthSettings(
                self.bandwidth.spare,
                self.bandwidth.reserved or None,
                self.bandwidth.expiry,
                self.bandwidth.reserved_dscp if self.bandwidth.reserved else None,
            ),
            protection=self.protection.settings(),
            vlans=tuple(section.rule() for section in fabric.vlans),
            bonds=tuple(section.rule() for section in fabric.bonds),
            multicast_snooping=fabric.multicast_snooping,
        )
