/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Random loss of TCP's data: a filter of clsact at ingress, where frames are as the wire has them.  Handshakes,
 * acknowledgements and ends, which carry none, pass.  It remembers which frames of each connection were lost.
 */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "dataloss.h"

/* Macros of the kernel are not in its type information. */
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define ETH_P_IP 0x0800
#define ETH_BYTES 14

char _license[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dataloss);
} dataloss SEC(".maps");

/* By the source port, as of all that go to one server. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u16);
	__type(value, struct dataloss_connection);
} connections SEC(".maps");

SEC("tc")
int decide(struct __sk_buff *ctx)
{
	u32 zero = 0, ip_bytes, header_bytes, total_bytes;
	struct dataloss *of = bpf_map_lookup_elem(&dataloss, &zero);
	struct dataloss_connection none = {}, *at;
	u8 ip[20], tcp[14];
	u16 port;

	if (!of || ctx->protocol != bpf_htons(ETH_P_IP) ||
	    bpf_skb_load_bytes(ctx, ETH_BYTES, ip, sizeof(ip)) || ip[9] != IPPROTO_TCP)
		return TC_ACT_OK;
	ip_bytes = (ip[0] & 15) * 4;
	if (bpf_skb_load_bytes(ctx, ETH_BYTES + ip_bytes, tcp, sizeof(tcp)))
		return TC_ACT_OK;
	header_bytes = ip_bytes + (tcp[12] >> 4) * 4;
	total_bytes = ip[2] << 8 | ip[3];
	if (total_bytes <= header_bytes)
		return TC_ACT_OK;
	port = tcp[0] << 8 | tcp[1];
	bpf_map_update_elem(&connections, &port, &none, BPF_NOEXIST);
	at = bpf_map_lookup_elem(&connections, &port);
	if (!at)
		return TC_ACT_OK;
	return dataloss_loses(of, at, port, total_bytes - header_bytes) ? TC_ACT_SHOT : TC_ACT_OK;
}
