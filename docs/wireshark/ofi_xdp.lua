-- SPDX-License-Identifier: MIT OR Apache-2.0
--
-- Wireshark dissector of the xdp wire protocol, version 2 (docs/PROTOCOL.md). Each table names its
-- section.
--
--   wireshark -X lua_script:docs/wireshark/ofi_xdp.lua run.pcap
--
-- Or copy this file to the folder "Personal Lua Plugins" that Help > About Wireshark names. Ports
-- are not fixed, so UDP payloads are recognised by their header, before port numbers are compared.
-- That needs `udp.try_heuristic_first`, which is set below; Wireshark lets scripts do that from 4.0
-- on. Filters: ofi_xdp.kind == 0x10, ofi_xdp.flags.retransmission, ofi_xdp.msn == 7,
-- ofi_xdp.malformed.

local xdp = Proto("ofi_xdp", "libfabric xdp provider")

local HEADER = 32
local TICK_NS = 64

local KINDS = { -- 3.4
    [0x01] = "ACK", [0x02] = "HELLO", [0x03] = "HELLO_ACK", [0x04] = "RETRY", [0x05] = "RESET",
    [0x06] = "PING", [0x07] = "CLOSE", [0x08] = "PROBE", [0x09] = "PROBE_ACK",
    [0x0a] = "PIECE", [0x0b] = "PORT_REQUEST", [0x10] = "DATA",
    [0x20] = "CONNECT", [0x21] = "COOKIE", [0x22] = "PENDING", [0x23] = "ACCEPT", -- 12
    [0x24] = "CONFIRM", [0x25] = "REJECT", [0x26] = "REJECT_ACK", [0x27] = "CANCEL",
}

local REASONS = { "refused", "rejected", "busy", "gone" } -- 12.1

local RECORDS = { -- 3.5: name, bytes of the header
    [0x10] = { "MESSAGE", 16 }, [0x11] = { "SEGMENT", 24 }, [0x12] = { "RTS", 32 },
    [0x13] = { "FIN", 24 }, [0x20] = { "WRITE", 24 }, [0x30] = { "READ_REQUEST", 40 },
    [0x31] = { "READ_RESPONSE", 24 }, [0x40] = { "ATOMIC_REQUEST", 32 },
    [0x41] = { "ATOMIC_RESPONSE", 16 }, [0x50] = { "ERROR", 24 },
}
local RECORD_NAMES = {}
for kind, record in pairs(RECORDS) do RECORD_NAMES[kind] = record[1] end

local fields = {}
local function field(name, constructor, label, ...)
    local made = constructor("ofi_xdp." .. name, label, ...)
    fields[#fields + 1] = made
    return made
end

-- 3.2
local f_version = field("version", ProtoField.uint8, "Version", base.DEC, nil, 0xf0)
local f_auth = field("authentication", ProtoField.uint8, "Authentication", base.DEC, nil, 0x0f)
local f_kind = field("kind", ProtoField.uint8, "Kind", base.HEX, KINDS)
local f_flags = field("flags", ProtoField.uint8, "Flags", base.HEX)
local f_ack_request =
    field("flags.ack_request", ProtoField.bool, "ACK_REQUEST", 8, nil, 0x01)
local f_again = field("flags.retransmission", ProtoField.bool, "RETRANSMISSION", 8, nil, 0x02)
local f_barrier = field("flags.barrier", ProtoField.bool, "BARRIER", 8, nil, 0x04)
local f_duplicates =
    field("flags.duplicates_seen", ProtoField.bool, "DUPLICATES_SEEN", 8, nil, 0x08)
local f_beyond =
    field("flags.beyond_window_seen", ProtoField.bool, "BEYOND_WINDOW_SEEN", 8, nil, 0x10)
local f_head_checksum =
    field("flags.head_checksum", ProtoField.bool, "HEAD_CHECKSUM", 8, nil, 0x20)
local f_rnr_epoch = field("rnr_epoch", ProtoField.uint8, "Receiver-not-ready epoch")
local f_dst_cid = field("dst_cid", ProtoField.uint32, "Receiver's connection", base.HEX)
local f_token = field("token", ProtoField.uint32, "Token, lower half", base.HEX)
local f_upper = field("token.upper", ProtoField.uint32, "Token, upper half", base.HEX)
local f_psn = field("psn", ProtoField.uint32, "Packet number")
local f_ack_psn = field("ack_psn", ProtoField.uint32, "Lowest packet number not received")
local f_accepted = field("accepted_msn", ProtoField.uint16, "Next message to be accepted")
local f_err_count = field("err_count", ProtoField.uint8, "Error records issued")
local f_occupancy = field("receiver.occupancy", ProtoField.uint8, "Storage in use, eighths", base.DEC,
    nil, 0x07)
local f_not_ready =
    field("receiver.not_ready", ProtoField.bool, "Receiver not ready", 8, nil, 0x08)
local f_seen_epoch = field("receiver.rnr_epoch", ProtoField.uint8, "Epoch seen", base.DEC, nil, 0xf0)
local f_sent_at = field("sent_at", ProtoField.uint32, "Sent at (ticks of 64 ns)")
local f_checksum = field("checksum", ProtoField.uint32, "CRC-32C", base.HEX)
local f_checksum_good = field("checksum.good", ProtoField.bool, "CRC-32C is right")
-- 4.3
local f_echo = field("ack.echo", ProtoField.uint32, "Echo (ticks)")
local f_hold = field("ack.hold", ProtoField.uint32, "Held for (ticks)")
local f_hold_us = field("ack.hold_us", ProtoField.double, "Held for (microseconds)")
local f_wait = field("ack.wait", ProtoField.uint32, "Waited for at most (ticks)")
local f_wait_us = field("ack.wait_us", ProtoField.double, "Waited for at most (microseconds)")
local f_offset = field("ack.sack_offset", ProtoField.uint16, "First word of bitmap")
local f_marks = field("ack.congestion_marks", ProtoField.uint16, "Congestion marks")
local f_words = field("ack.sack_words", ProtoField.uint8, "Words of bitmap")
local f_credit = field("ack.responder_credit", ProtoField.uint8, "Responder credit")
local f_received = field("ack.received", ProtoField.uint32, "Packets received")
local f_bitmap = field("ack.bitmap", ProtoField.uint64, "Bitmap", base.HEX)
local f_sacked = field("ack.sacked", ProtoField.uint32, "Received out of order")
-- 5.1
local f_src_incarnation =
    field("src_incarnation", ProtoField.uint64, "Sender's incarnation", base.HEX)
local f_dst_incarnation =
    field("dst_incarnation", ProtoField.uint64, "Receiver's incarnation", base.HEX)
local f_src_cid = field("src_cid", ProtoField.uint32, "Sender's connection", base.HEX)
local f_psn_base = field("psn_base", ProtoField.uint32, "First packet number")
local f_receive_max = field("receive_max", ProtoField.uint16, "Largest packet")
local f_port_packets = field("port_packets", ProtoField.uint16, "Port capacity (packets)")
local f_name_port = field("name_port", ProtoField.uint16, "Port known by", base.DEC)
local f_epoch = field("epoch", ProtoField.uint16, "Epoch")
local f_cookie = field("cookie", ProtoField.uint64, "Cookie", base.HEX)
-- 11
local f_round = field("probe.round", ProtoField.uint16, "Round of probes")
local f_size = field("probe.size", ProtoField.uint16, "Size of the probe")
local f_piece_offset = field("piece.offset", ProtoField.uint16, "Offset in the packet's body")
local f_piece_total = field("piece.total", ProtoField.uint16, "Length of the packet's body")

-- 13.1
local f_request_source = field("port_request.source", ProtoField.uint16, "Source port of the packet")
local f_request_wanted =
    field("port_request.wanted", ProtoField.uint16, "Wanted source port, or queues")
-- 12.1
local f_reason = field("connect.reason", ProtoField.uint8, "Reason", base.DEC, REASONS)
local f_connect_len = field("connect.data_len", ProtoField.uint16, "Data length")
local f_port = field("connect.port", ProtoField.uint16, "Data port")
local f_nonce_high = field("connect.nonce_high", ProtoField.uint32, "Upper bits of the number",
    base.HEX)
local f_nonce = field("connect.nonce", ProtoField.uint64, "Number of the request", base.HEX)
local f_proof = field("connect.proof", ProtoField.uint64, "Cookie or number of the acceptance", base.HEX)
local f_ip = field("connect.ip", ProtoField.ipv6, "Data address")
local f_connect_data = field("connect.data", ProtoField.bytes, "Data of the application")
-- 3.5
local f_record = field("record", ProtoField.uint8, "Record", base.HEX, RECORD_NAMES)
local f_record_flags = field("record.flags", ProtoField.uint8, "Flags", base.HEX)
local f_tagged = field("record.tagged", ProtoField.bool, "TAGGED", 8, nil, 0x01)
local f_has_data = field("record.has_data", ProtoField.bool, "HAS_DATA", 8, nil, 0x02)
local f_rendezvous = field("record.rendezvous_or_fetch", ProtoField.bool, "RENDEZVOUS or FETCH", 8, nil, 0x04)
local f_last = field("record.last", ProtoField.bool, "LAST", 8, nil, 0x08)
local f_rest = field("record.rest", ProtoField.bool, "REST", 8, nil, 0x10)
local f_len = field("record.len", ProtoField.uint16, "Payload length")
local f_msn = field("msn", ProtoField.uint32, "Message number")
local f_op_id = field("op_id", ProtoField.uint32, "Operation", base.HEX)
local f_tag = field("tag", ProtoField.uint64, "Tag", base.HEX)
local f_offset = field("offset", ProtoField.uint64, "Offset")
local f_total = field("total", ProtoField.uint64, "Total length")
local f_handle = field("handle", ProtoField.uint64, "Handle", base.HEX)
local f_key = field("key", ProtoField.uint64, "Key", base.HEX)
local f_address = field("address", ProtoField.uint64, "Address", base.HEX)
local f_read_len = field("read_len", ProtoField.uint64, "Bytes asked for")
local f_status = field("status", ProtoField.uint32, "Status")
local f_datatype = field("datatype", ProtoField.uint8, "Data type")
local f_op = field("atomic_op", ProtoField.uint8, "Operator")
local f_count = field("count", ProtoField.uint16, "Elements")
local f_error_kind = field("error.kind", ProtoField.uint16, "Kind of the operation", base.HEX)
local f_error_code = field("error.code", ProtoField.uint16, "Error code")
local f_error_sequence = field("error.sequence", ProtoField.uint8, "Error number")
local f_data = field("data", ProtoField.uint64, "Remote CQ data", base.HEX)
local f_payload = field("payload", ProtoField.bytes, "Payload")
xdp.fields = fields

local e_malformed = ProtoExpert.new("ofi_xdp.malformed", "Malformed packet",
    expert.group.MALFORMED, expert.severity.ERROR)
local e_checksum = ProtoExpert.new("ofi_xdp.bad_checksum", "Wrong CRC-32C",
    expert.group.CHECKSUM, expert.severity.ERROR)
xdp.experts = { e_malformed, e_checksum }

xdp.prefs.check = Pref.bool("Verify the CRC-32C", true, "Compute each packet's checksum")

-- CRC-32C (RFC 3720 B.4), byte by byte from a table.
local band, bxor, rshift = bit.band, bit.bxor, bit.rshift
local crc_table = {}
for byte = 0, 255 do
    local crc = byte
    for _ = 1, 8 do
        crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0x82f63b78) or rshift(crc, 1)
    end
    crc_table[byte] = crc
end

-- 3.3: over the whole payload, or the first 64 bytes of a DATA packet with HEAD_CHECKSUM. The
-- checksum's own bytes are taken as zero; zero is sent as all ones.
local function checksum(tvb)
    local bytes = tvb:bytes()
    local is_head = bytes:get_index(1) == 0x10 and band(bytes:get_index(2), 0x20) ~= 0
    local last = is_head and math.min(64, tvb:len()) or tvb:len()
    local crc = -1
    for at = 0, last - 1 do
        local byte = (at >= 28 and at < HEADER) and 0 or bytes:get_index(at)
        crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, byte), 0xff)])
    end
    crc = band(bxor(crc, -1), -1) % 0x100000000
    return crc == 0 and 0xffffffff or crc
end

local function add_le(tree, tvb, list)
    for _, entry in ipairs(list) do tree:add_le(entry[1], tvb(entry[2], entry[3])) end
end

-- Fields from offset 4 of a record's header on: field, offset, bytes.
local LAYOUT = {
    [0x10] = { { f_msn, 4, 4 }, { f_tag, 8, 8 } },
    [0x11] = { { f_msn, 4, 4 }, { f_tag, 8, 8 }, { f_offset, 16, 4 }, { f_total, 20, 4 } },
    [0x12] = { { f_msn, 4, 4 }, { f_tag, 8, 8 }, { f_handle, 16, 8 }, { f_total, 24, 8 } },
    [0x13] = { { f_handle, 8, 8 }, { f_total, 16, 8 } },
    [0x20] = { { f_op_id, 4, 4 }, { f_key, 8, 8 }, { f_address, 16, 8 } },
    [0x30] = { { f_op_id, 4, 4 }, { f_key, 8, 8 }, { f_address, 16, 8 }, { f_offset, 24, 8 },
        { f_read_len, 32, 4 } },
    [0x31] = { { f_op_id, 4, 4 }, { f_offset, 8, 8 }, { f_status, 16, 4 } },
    [0x40] = { { f_op_id, 4, 4 }, { f_key, 8, 8 }, { f_address, 16, 8 }, { f_datatype, 24, 1 },
        { f_op, 25, 1 }, { f_count, 26, 2 } },
    [0x41] = { { f_op_id, 4, 4 }, { f_status, 8, 4 } },
    [0x50] = { { f_op_id, 4, 4 }, { f_error_kind, 16, 2 }, { f_error_code, 18, 2 },
        { f_error_sequence, 20, 1 } },
}

-- Dissects one record. Returns its length in bytes, or nil where it does not fit.
local function record(tvb, tree, names)
    if tvb:len() < 4 then return nil end
    local kind = tvb(0, 1):uint()
    local flags = tvb(1, 1):uint()
    local len = tvb(2, 2):le_uint()
    local known = RECORDS[kind]
    if not known then return nil end
    local name, header = known[1], known[2]
    local start = header
    -- Remote CQ data follows the header, also in a SEGMENT and an RTS.
    local has_data = band(flags, 0x02) ~= 0
    if has_data then start = start + 8 end
    local size = start + len
    local padded = size + (-size % 8)
    if padded > tvb:len() then return nil end
    local branch = tree:add(xdp, tvb(0, padded), name .. ", " .. len .. " bytes")
    branch:add(f_record, tvb(0, 1))
    local bits = branch:add(f_record_flags, tvb(1, 1))
    for _, one in ipairs({ f_tagged, f_has_data, f_rendezvous, f_last, f_rest }) do
        bits:add(one, tvb(1, 1))
    end
    branch:add_le(f_len, tvb(2, 2))
    add_le(branch, tvb, LAYOUT[kind])
    if has_data then branch:add_le(f_data, tvb(header, 8)) end
    if len > 0 then branch:add(f_payload, tvb(start, len)) end
    names[#names + 1] = name
    return padded
end

local function data(tvb, tree)
    local names = {}
    local at = 0
    while at < tvb:len() do
        local taken = record(tvb(at):tvb(), tree, names)
        if not taken then return nil end
        at = at + taken
    end
    return names
end

local function ack(tvb, tree, ack_psn)
    if tvb:len() < 24 or tvb:len() ~= 24 + 8 * tvb(16, 1):uint() then return false end
    add_le(tree, tvb, { { f_echo, 0, 4 }, { f_hold, 4, 4 }, { f_wait, 8, 4 } })
    tree:add(f_hold_us, tvb(4, 4), tvb(4, 4):le_uint() * TICK_NS / 1000):set_generated()
    tree:add(f_wait_us, tvb(8, 4), tvb(8, 4):le_uint() * TICK_NS / 1000):set_generated()
    add_le(tree, tvb, { { f_marks, 12, 2 }, { f_offset, 14, 2 }, { f_words, 16, 1 },
        { f_credit, 17, 1 }, { f_received, 20, 4 } })
    local first = ack_psn + 1 + 64 * tvb(14, 2):le_uint()
    for word = 0, tvb(16, 1):uint() - 1 do
        local bits = tvb(24 + 8 * word, 8)
        local branch = tree:add_le(f_bitmap, bits)
        for index = 0, 63 do
            local byte = tvb(24 + 8 * word + math.floor(index / 8), 1):uint()
            if band(rshift(byte, index % 8), 1) == 1 then
                local psn = (first + 64 * word + index) % 0x100000000
                branch:add(f_sacked, bits, psn):set_generated()
            end
        end
    end
    return true
end

local function handshake(tvb, tree)
    if tvb:len() ~= 40 then return false end
    add_le(tree, tvb, { { f_src_incarnation, 0, 8 }, { f_dst_incarnation, 8, 8 },
        { f_src_cid, 16, 4 }, { f_psn_base, 20, 4 }, { f_receive_max, 24, 2 }, { f_port_packets, 26, 2 },
        { f_name_port, 28, 2 }, { f_epoch, 30, 2 }, { f_cookie, 32, 8 } })
    return true
end

local function probe(tvb, tree)
    if tvb:len() < 8 then return false end
    add_le(tree, tvb, { { f_round, 0, 2 }, { f_size, 2, 2 } })
    return true
end

local function piece(tvb, tree)
    if tvb:len() < 9 then return false end
    add_le(tree, tvb, { { f_piece_offset, 0, 2 }, { f_piece_total, 2, 2 } })
    return tvb(0, 2):le_uint() + tvb:len() - 8 <= tvb(2, 2):le_uint()
end

local function port_request(tvb, tree)
    if tvb:len() ~= 8 then return false end
    add_le(tree, tvb, { { f_request_source, 0, 2 }, { f_request_wanted, 2, 2 } })
    return true
end

local function check(tvb, tree)
    local sum = tree:add_le(f_checksum, tvb(28, 4))
    if xdp.prefs.check then
        local good = checksum(tvb) == tvb(28, 4):le_uint()
        sum:add(f_checksum_good, tvb(28, 4), good):set_generated()
        if not good then sum:add_proto_expert_info(e_checksum) end
    end
end

-- 12.1: the packet of connection management has a header of its own.
local function connect(tvb, tree)
    for _, one in ipairs({ f_version, f_auth }) do tree:add(one, tvb(0, 1)) end
    tree:add(f_kind, tvb(1, 1))
    tree:add(f_reason, tvb(2, 1))
    add_le(tree, tvb, { { f_connect_len, 4, 2 }, { f_port, 6, 2 }, { f_nonce, 8, 8 },
        { f_proof, 16, 8 }, { f_nonce_high, 24, 4 } })
    check(tvb, tree)
    if tvb:len() < 52 or tvb:len() ~= 52 + tvb(4, 2):le_uint() then return false end
    local kind = tvb(1, 1):uint()
    tree:add(f_ip, tvb(32, 16))
    if kind == 0x20 or kind == 0x23 then tree:add_le(f_src_cid, tvb(48, 4)) end
    if tvb:len() > 52 then tree:add(f_connect_data, tvb(52)) end
    return true
end

local function header(tvb, tree)
    tree:add(f_version, tvb(0, 1))
    tree:add(f_auth, tvb(0, 1))
    tree:add(f_kind, tvb(1, 1))
    local flags = tree:add(f_flags, tvb(2, 1))
    for _, one in ipairs({ f_ack_request, f_again, f_barrier, f_duplicates, f_beyond,
        f_head_checksum }) do
        flags:add(one, tvb(2, 1))
    end
    tree:add(f_rnr_epoch, tvb(3, 1))
    add_le(tree, tvb, { { f_dst_cid, 4, 4 }, { f_token, 8, 4 }, { f_psn, 12, 4 },
        { f_ack_psn, 16, 4 }, { f_accepted, 20, 2 }, { f_err_count, 22, 1 } })
    -- 5.3: packets without a number have the upper half of the token in its place.
    local kind = tvb(1, 1):uint()
    if kind ~= 0x10 and kind ~= 0x05 then tree:add_le(f_upper, tvb(12, 4)) end
    for _, one in ipairs({ f_occupancy, f_not_ready, f_seen_epoch }) do tree:add(one, tvb(23, 1)) end
    tree:add_le(f_sent_at, tvb(24, 4))
    check(tvb, tree)
end

function xdp.dissector(tvb, pinfo, root)
    if tvb:len() < HEADER then return 0 end
    pinfo.cols.protocol = "XDP-OFI"
    local tree = root:add(xdp, tvb())
    local kind = tvb(1, 1):uint()
    local is_connect = kind >= 0x20 and kind <= 0x27
    if not is_connect then header(tvb, tree) end
    local name = KINDS[kind] or string.format("kind 0x%02x", kind)
    local info = name
    local body = tvb:len() > HEADER and tvb(HEADER):tvb() or nil
    local sound = true
    if is_connect then
        sound = connect(tvb, tree)
    elseif kind == 0x10 then
        local names = body and data(body, tree) or (body == nil and {} or nil)
        sound = names ~= nil
        info = string.format("DATA psn %d: %s", tvb(12, 4):le_uint(),
            names and table.concat(names, " ") or "?")
        if band(tvb(2, 1):uint(), 0x02) ~= 0 then info = info .. " (again)" end
    elseif kind == 0x01 then
        sound = body ~= nil and ack(body, tree, tvb(16, 4):le_uint())
        info = string.format("ACK %d", tvb(16, 4):le_uint())
    elseif kind >= 0x02 and kind <= 0x04 then
        sound = body ~= nil and handshake(body, tree)
    elseif kind == 0x08 or kind == 0x09 then
        sound = body ~= nil and probe(body, tree)
    elseif kind == 0x0a then
        sound = body ~= nil and piece(body, tree)
        info = string.format("PIECE of psn %d", tvb(12, 4):le_uint())
    elseif kind == 0x0b then
        sound = body ~= nil and port_request(body, tree)
    elseif kind >= 0x05 and kind <= 0x07 then
        sound = body == nil
    end
    if not sound then tree:add_proto_expert_info(e_malformed) end
    pinfo.cols.info = info
    return tvb:len()
end

-- Accepts version 2 without authentication, with a known kind, known flags and a checksum.
local function is_ours(tvb)
    return tvb:len() >= HEADER and tvb(0, 1):uint() == 0x20 and KINDS[tvb(1, 1):uint()] ~= nil
        and tvb(2, 1):uint() < 0x40 and tvb(28, 4):le_uint() ~= 0
end

xdp:register_heuristic("udp", function(tvb, pinfo, root)
    if not is_ours(tvb) then return false end
    xdp.dissector(tvb, pinfo, root)
    return true
end)
DissectorTable.get("udp.port"):add_for_decode_as(xdp)
-- Some ports of endpoints belong to other protocols by custom (7000 is AFS's).
if set_preference then pcall(set_preference, "udp.try_heuristic_first", true) end
