package org.attestgate.trustclient.software;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;

/** Encodes values in DER (X.690). */
final class Der {
    private static final DateTimeFormatter UTC_TIME =
        DateTimeFormatter.ofPattern("yyMMddHHmmss'Z'").withZone(ZoneOffset.UTC);
    private static final DateTimeFormatter GENERALIZED_TIME =
        DateTimeFormatter.ofPattern("yyyyMMddHHmmss'Z'").withZone(ZoneOffset.UTC);
    /** The first second that UTCTime cannot express (RFC 5280, section 4.1.2.5). */
    private static final long YEAR_2050 = 2_524_608_000L;

    private Der() {}

    static byte[] concatenate(byte[]... parts) {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        for (byte[] part : parts) all.write(part, 0, part.length);
        return all.toByteArray();
    }

    static byte[] item(int tag, byte[]... parts) {
        byte[] content = concatenate(parts);
        byte[] length = content.length < 128
            ? new byte[] {(byte) content.length}
            : content.length < 256
                ? new byte[] {(byte) 0x81, (byte) content.length}
                : new byte[] {(byte) 0x82, (byte) (content.length >> 8), (byte) content.length};
        return concatenate(new byte[] {(byte) tag}, length, content);
    }

    static byte[] sequence(byte[]... parts) {
        return item(0x30, parts);
    }

    static byte[] set(byte[]... parts) {
        return item(0x31, parts);
    }

    static byte[] integer(long value) {
        return item(0x02, BigInteger.valueOf(value).toByteArray());
    }

    static byte[] enumerated(int value) {
        return item(0x0a, new byte[] {(byte) value});
    }

    static byte[] bool(boolean value) {
        return item(0x01, new byte[] {(byte) (value ? 0xff : 0)});
    }

    static byte[] octets(byte[] content) {
        return item(0x04, content);
    }

    static byte[] bits(byte[] content) {
        return item(0x03, new byte[1], content);
    }

    static byte[] text(String text) {
        return item(0x0c, text.getBytes(StandardCharsets.UTF_8));
    }

    static byte[] nothing() {
        return item(0x05);
    }

    static byte[] time(long seconds) {
        Instant instant = Instant.ofEpochSecond(seconds);
        return seconds < YEAR_2050
            ? item(0x17, UTC_TIME.format(instant).getBytes(StandardCharsets.US_ASCII))
            : item(0x18, GENERALIZED_TIME.format(instant).getBytes(StandardCharsets.US_ASCII));
    }

    /** Encodes an object identifier in dotted form. */
    static byte[] object(String identifier) {
        String[] arcs = identifier.split("\\.");
        byte[] content = {(byte) (Integer.parseInt(arcs[0]) * 40 + Integer.parseInt(arcs[1]))};
        for (int i = 2; i < arcs.length; i++) content = concatenate(content, base128(Integer.parseInt(arcs[i])));
        return item(0x06, content);
    }

    /** Encodes a member with an explicit context tag, which may be above 30. */
    static byte[] explicit(int tag, byte[] value) {
        if (tag < 31) return item(0xa0 | tag, value);
        byte[] item = item(0, value);
        byte[] rest = new byte[item.length - 1];
        System.arraycopy(item, 1, rest, 0, rest.length);
        return concatenate(new byte[] {(byte) 0xbf}, base128(tag), rest);
    }

    private static byte[] base128(int value) {
        byte[] digits = {(byte) (value & 0x7f)};
        for (int rest = value >> 7; rest > 0; rest >>= 7) {
            digits = concatenate(new byte[] {(byte) (rest & 0x7f | 0x80)}, digits);
        }
        return digits;
    }
}
