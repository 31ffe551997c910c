package org.attestgate.trustclient.android;

import android.security.keystore.KeyGenParameterSpec;
import android.security.keystore.KeyProperties;
import android.security.keystore.StrongBoxUnavailableException;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.ProviderException;
import java.security.Signature;
import java.security.UnrecoverableKeyException;
import java.security.cert.Certificate;
import java.security.spec.ECGenParameterSpec;
import java.util.ArrayList;
import java.util.List;
import org.attestgate.trustclient.Attestor;
import org.attestgate.trustclient.AttestorFault;
import org.attestgate.trustclient.P256;

/** The Android Keystore, from Android 9 (API level 28) on. */
public final class AndroidKeystore implements Attestor {
    private static final String PROVIDER = "AndroidKeyStore";

    private final boolean prefersStrongBox;

    /**
     * Creates an attestor.
     *
     * @param prefersStrongBox whether keys are made in a secure element of its own where the phone has one, and
     *     otherwise in the trusted execution environment. Its signatures take longer: a proof needs one.
     */
    public AndroidKeystore(boolean prefersStrongBox) {
        this.prefersStrongBox = prefersStrongBox;
    }

    @Override
    public List<byte[]> generateKey(String alias, Purpose purpose, byte[] challenge) throws AttestorFault {
        try {
            try {
                generate(alias, purpose, challenge, prefersStrongBox);
            } catch (StrongBoxUnavailableException error) {
                generate(alias, purpose, challenge, false);
            }
            List<byte[]> chain = new ArrayList<>();
            Certificate[] certificates = keyStore().getCertificateChain(alias);
            if (certificates == null) throw new AttestorFault(AttestorFault.Reason.KEY_LOST);
            for (Certificate certificate : certificates) chain.add(certificate.getEncoded());
            // A phone that cannot attest returns one certificate, which the key itself has signed.
            if (challenge != null && chain.size() < 2) throw new AttestorFault(AttestorFault.Reason.UNSUPPORTED);
            return chain;
        } catch (GeneralSecurityException | ProviderException error) {
            // Keys for attestation come from a server of Google's and can be used up.
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    private static void generate(String alias, Purpose purpose, byte[] challenge, boolean isStrongBox)
        throws GeneralSecurityException {
        KeyGenParameterSpec.Builder parameters = new KeyGenParameterSpec.Builder(alias, KeyProperties.PURPOSE_SIGN)
            .setAlgorithmParameterSpec(new ECGenParameterSpec("secp256r1"))
            .setIsStrongBoxBacked(isStrongBox);
        if (purpose == Purpose.TLS) {
            // TLS hashes the handshake itself, and has the keystore sign the hash.
            parameters.setDigests(KeyProperties.DIGEST_SHA256, KeyProperties.DIGEST_NONE);
        } else {
            parameters.setDigests(KeyProperties.DIGEST_SHA256);
        }
        if (challenge != null) parameters.setAttestationChallenge(challenge);
        KeyPairGenerator generator = KeyPairGenerator.getInstance(KeyProperties.KEY_ALGORITHM_EC, PROVIDER);
        generator.initialize(parameters.build());
        generator.generateKeyPair();
    }

    @Override
    public byte[] point(String alias) throws AttestorFault {
        try {
            Certificate certificate = keyStore().getCertificate(alias);
            byte[] point = certificate == null ? null : P256.point(certificate.getPublicKey());
            if (point == null) throw new AttestorFault(AttestorFault.Reason.KEY_LOST);
            return point;
        } catch (GeneralSecurityException | ProviderException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    @Override
    public byte[] signature(String alias, byte[] message) throws AttestorFault {
        try {
            Signature signature = Signature.getInstance("SHA256withECDSA");
            signature.initSign(privateKey(alias));
            signature.update(message);
            return signature.sign();
        } catch (InvalidKeyException error) {
            // KeyPermanentlyInvalidatedException among others.
            throw new AttestorFault(AttestorFault.Reason.KEY_LOST, error);
        } catch (GeneralSecurityException | ProviderException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    @Override
    public PrivateKey privateKey(String alias) throws AttestorFault {
        try {
            Key key = keyStore().getKey(alias, null);
            if (!(key instanceof PrivateKey)) throw new AttestorFault(AttestorFault.Reason.KEY_LOST);
            return (PrivateKey) key;
        } catch (UnrecoverableKeyException error) {
            throw new AttestorFault(AttestorFault.Reason.KEY_LOST, error);
        } catch (GeneralSecurityException | ProviderException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    @Override
    public void deleteKey(String alias) throws AttestorFault {
        try {
            keyStore().deleteEntry(alias);
        } catch (GeneralSecurityException | ProviderException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    private static KeyStore keyStore() throws GeneralSecurityException, AttestorFault {
        try {
            KeyStore keyStore = KeyStore.getInstance(PROVIDER);
            keyStore.load(null);
            return keyStore;
        } catch (IOException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }
}
