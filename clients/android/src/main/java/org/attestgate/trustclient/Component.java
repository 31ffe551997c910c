package org.attestgate.trustclient;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;

/** The names of the components that a proof covers. */
final class Component {
    /** The components that every proof covers. */
    static final List<String> TARGET =
        Collections.unmodifiableList(Arrays.asList("@method", "@authority", "@path", "@query"));
    static final String CONTENT_DIGEST = "content-digest";
    static final String PROOF_COUNTER = "attest-proof-counter";
    /** The fields that are covered if the request has them, in the order of a proof. */
    static final List<String> IF_PRESENT =
        Collections.unmodifiableList(Arrays.asList("authorization", "content-type", "content-encoding"));

    private static final int NAME_LIMIT = 256;

    private Component() {}

    /** Returns whether a proof can have this component. */
    static boolean isValid(String name) {
        return TARGET.contains(name) || fieldName(name) != null && name.equals(fieldName(name));
    }

    /** Returns the field name in lower case, or null if the text is no field name (RFC 9110, section 5.1). */
    static String fieldName(String text) {
        if (text.isEmpty() || text.length() > NAME_LIMIT) return null;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            boolean isToken = c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
                || "!#$%&'*+-.^_`|~".indexOf(c) >= 0;
            if (!isToken) return null;
        }
        return text.toLowerCase(Locale.ROOT);
    }
}
