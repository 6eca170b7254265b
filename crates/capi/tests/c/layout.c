/* Prints what the compiler makes of the structures: name, offset, size. */
#include <nearwire.h>
#include <stdio.h>

#define STRUCT(type) printf(#type " 0 %zu\n", sizeof(struct type))
#define MEMBER(type, member) \
    printf(#type "." #member " %zu %zu\n", offsetof(struct type, member), sizeof(((struct type *)0)->member))

int main(void)
{
    STRUCT(nearwire_options);
    MEMBER(nearwire_options, size);
    MEMBER(nearwire_options, mode);
    MEMBER(nearwire_options, take);
    MEMBER(nearwire_options, waiting);
    MEMBER(nearwire_options, flags);
    MEMBER(nearwire_options, queue);
    MEMBER(nearwire_options, queue_count);
    MEMBER(nearwire_options, tx_queue);
    MEMBER(nearwire_options, rx_frames);
    MEMBER(nearwire_options, tx_frames);
    MEMBER(nearwire_options, slots);
    MEMBER(nearwire_options, frame_bytes);
    MEMBER(nearwire_options, busy_poll_us);
    MEMBER(nearwire_options, reserved);
    STRUCT(nearwire_frame_info);
    MEMBER(nearwire_frame_info, size);
    MEMBER(nearwire_frame_info, queue);
    MEMBER(nearwire_frame_info, time_ns);
    MEMBER(nearwire_frame_info, time_source);
    MEMBER(nearwire_frame_info, reserved);
    STRUCT(nearwire_flow);
    MEMBER(nearwire_flow, size);
    MEMBER(nearwire_flow, protocol);
    MEMBER(nearwire_flow, family);
    MEMBER(nearwire_flow, port);
    MEMBER(nearwire_flow, reserved);
    MEMBER(nearwire_flow, address);
    STRUCT(nearwire_frame_filter);
    MEMBER(nearwire_frame_filter, size);
    MEMBER(nearwire_frame_filter, match);
    MEMBER(nearwire_frame_filter, mac);
    MEMBER(nearwire_frame_filter, ether_type);
    MEMBER(nearwire_frame_filter, vlan);
    MEMBER(nearwire_frame_filter, reserved);
    STRUCT(nearwire_statistics);
    MEMBER(nearwire_statistics, size);
    MEMBER(nearwire_statistics, reserved);
    MEMBER(nearwire_statistics, received_frames);
    MEMBER(nearwire_statistics, sent_frames);
    MEMBER(nearwire_statistics, receive_dropped_frames);
    MEMBER(nearwire_statistics, send_refused_frames);
    MEMBER(nearwire_statistics, kicks);
    STRUCT(nearwire_tcp_options);
    MEMBER(nearwire_tcp_options, size);
    MEMBER(nearwire_tcp_options, slots);
    MEMBER(nearwire_tcp_options, reserved);
    STRUCT(nearwire_tcp_info);
    MEMBER(nearwire_tcp_info, size);
    MEMBER(nearwire_tcp_info, segment_bytes);
    MEMBER(nearwire_tcp_info, smoothed_round_trip_ns);
    MEMBER(nearwire_tcp_info, retransmitted_segments);
    MEMBER(nearwire_tcp_info, prepared_messages);
    MEMBER(nearwire_tcp_info, written_messages);
    MEMBER(nearwire_tcp_info, unacknowledged_bytes);
    MEMBER(nearwire_tcp_info, unsent_bytes);
    MEMBER(nearwire_tcp_info, unread_bytes);
    MEMBER(nearwire_tcp_info, send_window_bytes);
    STRUCT(nearwire_facts);
    MEMBER(nearwire_facts, size);
    MEMBER(nearwire_facts, flags);
    MEMBER(nearwire_facts, ifindex);
    MEMBER(nearwire_facts, mtu_bytes);
    MEMBER(nearwire_facts, speed_mbps);
    MEMBER(nearwire_facts, rx_queues);
    MEMBER(nearwire_facts, tx_queues);
    MEMBER(nearwire_facts, xdp_program_id);
    MEMBER(nearwire_facts, receive_dropped_frames);
    MEMBER(nearwire_facts, mac);
    MEMBER(nearwire_facts, reserved);
    MEMBER(nearwire_facts, driver);
    return 0;
}
