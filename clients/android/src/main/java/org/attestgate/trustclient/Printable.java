package org.attestgate.trustclient;

/** Checks of text that becomes part of a signature base, which has only printable ASCII. */
final class Printable {
    private Printable() {}

    /** Returns whether all characters are printable ASCII without the space. */
    static boolean isText(String text) {
        return isValue(text) && text.indexOf(' ') < 0;
    }

    /** Returns whether all characters are printable ASCII. */
    static boolean isValue(String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c < 0x20 || c > 0x7e) return false;
        }
        return true;
    }
}
