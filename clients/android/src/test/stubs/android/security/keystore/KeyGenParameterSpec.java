package android.security.keystore;

import java.security.spec.AlgorithmParameterSpec;

/** The platform's signatures, as far as AndroidKeystore uses them. */
public final class KeyGenParameterSpec implements AlgorithmParameterSpec {
    public static final class Builder {
        public Builder(String keystoreAlias, int purposes) {}

        public Builder setAlgorithmParameterSpec(AlgorithmParameterSpec spec) {
            return this;
        }

        public Builder setDigests(String... digests) {
            return this;
        }

        public Builder setAttestationChallenge(byte[] attestationChallenge) {
            return this;
        }

        public Builder setIsStrongBoxBacked(boolean isStrongBoxBacked) {
            return this;
        }

        public KeyGenParameterSpec build() {
            return new KeyGenParameterSpec();
        }
    }
}
