/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Random loss and RED before the queue of a device, for kernels without netem and RED: a filter of
 * clsact at egress.  The queue is that of the device's root qdisc; IPv4 frames alone are touched.
 */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "bottleneck.h"

/* Macros of the kernel are not in its type information. */
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define ETH_P_IP 0x0800
#define DESTINATION_LAST_BYTE (14 + 19)
#define FIRST_RECEIVER 2

char _license[] SEC("license") = "Dual MIT/GPL";

/* Two processors may send at once. */
struct locked {
	struct bottleneck at;
	struct bpf_spin_lock lock;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct locked);
} bottleneck SEC(".maps");

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

SEC("tc")
int decide(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	u32 zero = 0, queue = skb->dev->_tx->qdisc->qstats.backlog;
	struct locked *it = bpf_map_lookup_elem(&bottleneck, &zero);
	u64 now_ns = bpf_ktime_get_ns();
	u8 last = 0;
	int what;

	if (!it || ctx->protocol != bpf_htons(ETH_P_IP) ||
	    bpf_skb_load_bytes(ctx, DESTINATION_LAST_BYTE, &last, 1))
		return TC_ACT_OK;
	bpf_spin_lock(&it->lock);
	what = bottleneck_decide(&it->at, now_ns, queue, ctx->len, last != FIRST_RECEIVER);
	bpf_spin_unlock(&it->lock);
	return what == BOTTLENECK_PASSES ? TC_ACT_OK : TC_ACT_SHOT;
}
