package org.attestgate.trustclient;

import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.time.format.ResolverStyle;
import java.util.Locale;

/** The field Date of HTTP (RFC 9110, section 5.6.7), in its preferred form. */
final class HttpDate {
    private static final DateTimeFormatter FORM =
        DateTimeFormatter.ofPattern("EEE, dd MMM uuuu HH:mm:ss 'GMT'", Locale.ENGLISH)
            .withResolverStyle(ResolverStyle.STRICT);

    private HttpDate() {}

    /** Returns the seconds since 1970, or null for null and for another form. */
    static Long seconds(String date) {
        if (date == null) return null;
        try {
            return LocalDateTime.parse(date, FORM).toEpochSecond(ZoneOffset.UTC);
        } catch (DateTimeParseException malformed) {
            return null;
        }
    }
}
