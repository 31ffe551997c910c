package android.security.keystore;

/** The platform's constants, as far as AndroidKeystore uses them. */
public abstract class KeyProperties {
    public static final int PURPOSE_SIGN = 4;
    public static final String KEY_ALGORITHM_EC = "EC";
    public static final String DIGEST_SHA256 = "SHA-256";
    public static final String DIGEST_NONE = "NONE";

    private KeyProperties() {}
}
