package org.attestgate.trustclient.software;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;

/**
 * What attests the keys of software phones, below a root of its own, as KeyMint does it on a phone that was provisioned
 * in the factory. For tests: a gateway trusts it only for an app with {@code environment: simulator}.
 */
public final class SoftwareKeyMint {
    /** The keys above the leaf: two intermediate certificates and the root. */
    private static final List<String> KEYS = Arrays.asList("intermediate-1", "intermediate-2", "root");
    private static final String KEY_DESCRIPTION = "1.3.6.1.4.1.11129.2.1.17";
    private static final String TITLE = "2.5.4.12";
    private static final String SERIAL_NUMBER = "2.5.4.5";
    private static final String COMMON_NAME = "2.5.4.3";
    private static final int TRUSTED_ENVIRONMENT = 1;
    private static final long BEGIN = 1_600_000_000L;
    private static final long END = 4_000_000_000L;
    /** The length of a SubjectPublicKeyInfo of P-256. */
    private static final int PUBLIC_LENGTH = 91;

    private final File directory;
    private final List<KeyPair> keys = new ArrayList<>();
    private final String packageName;
    private int osVersion = 160_000;
    private int patchLevel = 202_610;
    private int appVersion = 1;

    /**
     * Opens the keys of a directory, which are made the first time.
     *
     * @param packageName the app that its attestations name, in version code 1. The SHA-256 of the certificate that
     *     signed it is 32 times {@code a5}.
     */
    public SoftwareKeyMint(File directory, String packageName) throws IOException, GeneralSecurityException {
        this.directory = directory;
        this.packageName = packageName;
        Files.createDirectories(directory.toPath());
        for (String name : KEYS) keys.add(open(name));
        String pem = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(certificate(2));
        write("root.pem", ("-----BEGIN CERTIFICATE-----\n" + pem + "\n-----END CERTIFICATE-----\n")
            .getBytes(StandardCharsets.US_ASCII));
    }

    /** The root certificate in PEM: {@code attestation_root} of the gateway. */
    public File root() {
        return new File(directory, "root.pem");
    }

    /**
     * Sets the state of the phone for further attestations.
     *
     * @param newOSVersion as KeyMint states it: 160000 is Android 16
     * @param newPatchLevel year and month, as 202610
     * @param newAppVersion the version code of the app
     */
    public void update(int newOSVersion, int newPatchLevel, int newAppVersion) {
        appVersion = newAppVersion;
        osVersion = newOSVersion;
        patchLevel = newPatchLevel;
    }

    /** Returns the attestation of a key: four certificates in DER, leaf first. */
    List<byte[]> attest(PublicKey key, byte[] challenge) throws GeneralSecurityException {
        byte[] description = Der.sequence(Der.object(KEY_DESCRIPTION), Der.octets(description(challenge)));
        byte[] leaf = sign(
            keys.get(0).getPrivate(), Der.integer(1), name(0), Der.sequence(rdn(COMMON_NAME, "Android Keystore Key")),
            Der.sequence(Der.time(0), Der.time(END)), key, Der.explicit(3, Der.sequence(description)));
        return Arrays.asList(leaf, certificate(0), certificate(1), certificate(2));
    }

    /** Returns the certificate of one of the keys, signed by the next or, the root, by itself. */
    private byte[] certificate(int index) throws GeneralSecurityException {
        int issuer = Math.min(index + 1, KEYS.size() - 1);
        return sign(
            keys.get(issuer).getPrivate(), Der.integer(1_000 + index), name(issuer), name(index),
            Der.sequence(Der.time(BEGIN), Der.time(END)), keys.get(index).getPublic(), new byte[0]);
    }

    private static byte[] sign(
        PrivateKey signer, byte[] serial, byte[] issuer, byte[] subject, byte[] validity, PublicKey key,
        byte[] extensions) throws GeneralSecurityException {
        byte[] algorithm = Der.sequence(Der.object("1.2.840.10045.4.3.2"));
        byte[] content = Der.sequence(
            Der.explicit(0, Der.integer(2)), serial, algorithm, issuer, validity, subject, key.getEncoded(),
            extensions);
        Signature signature = Signature.getInstance("SHA256withECDSA");
        signature.initSign(signer);
        signature.update(content);
        return Der.sequence(content, algorithm, Der.bits(signature.sign()));
    }

    /** Returns a name by which verifiers recognise a key that was provisioned in the factory. */
    private static byte[] name(int index) {
        if (index == 2) return Der.sequence(rdn(SERIAL_NUMBER, "f92009e853b6b045"));
        String serial = index == 0 ? "884f819dc0122db1" : "e0c3548a47e73f2a";
        return Der.sequence(rdn(TITLE, "TEE"), rdn(SERIAL_NUMBER, serial));
    }

    private static byte[] rdn(String attribute, String value) {
        return Der.set(Der.sequence(Der.object(attribute), Der.text(value)));
    }

    /** Encodes what the phone says of a key: generated in its hardware, on P-256, for signatures. */
    private byte[] description(byte[] challenge) {
        byte[] app = Der.sequence(
            Der.set(Der.sequence(Der.octets(packageName.getBytes(StandardCharsets.UTF_8)), Der.integer(appVersion))),
            Der.set(Der.octets(filled(0xa5))));
        byte[] software = Der.sequence(
            Der.explicit(701, Der.integer(System.currentTimeMillis())), Der.explicit(709, Der.octets(app)));
        byte[] rootOfTrust =
            Der.sequence(Der.octets(filled(1)), Der.bool(true), Der.enumerated(0), Der.octets(filled(2)));
        byte[] day = Der.integer(patchLevel * 100L + 1);
        byte[] hardware = Der.sequence(
            Der.explicit(1, Der.set(Der.integer(2))), Der.explicit(2, Der.integer(3)),
            Der.explicit(3, Der.integer(256)), Der.explicit(5, Der.set(Der.integer(4))),
            Der.explicit(10, Der.integer(1)), Der.explicit(503, Der.nothing()), Der.explicit(702, Der.integer(0)),
            Der.explicit(704, rootOfTrust), Der.explicit(705, Der.integer(osVersion)),
            Der.explicit(706, Der.integer(patchLevel)), Der.explicit(718, day), Der.explicit(719, day));
        return Der.sequence(
            Der.integer(300), Der.enumerated(TRUSTED_ENVIRONMENT), Der.integer(300),
            Der.enumerated(TRUSTED_ENVIRONMENT), Der.octets(challenge), Der.octets(new byte[0]), software, hardware);
    }

    private static byte[] filled(int octet) {
        byte[] octets = new byte[32];
        Arrays.fill(octets, (byte) octet);
        return octets;
    }

    // The keys in files, as SoftwareKeystore has them too.

    private KeyPair open(String name) throws IOException, GeneralSecurityException {
        KeyPair stored = load(new File(directory, name));
        if (stored != null) return stored;
        KeyPair made = generate();
        store(new File(directory, name), made);
        return made;
    }

    private void write(String name, byte[] content) throws IOException {
        Files.write(new File(directory, name).toPath(), content);
    }

    static KeyPair generate() throws GeneralSecurityException {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
        generator.initialize(new ECGenParameterSpec("secp256r1"));
        return generator.generateKeyPair();
    }

    /** Returns a stored key pair, or null if there is none. */
    static KeyPair load(File path) throws IOException, GeneralSecurityException {
        if (!path.exists()) return null;
        byte[] both = Files.readAllBytes(path.toPath());
        int middle = both.length - PUBLIC_LENGTH;
        KeyFactory factory = KeyFactory.getInstance("EC");
        return new KeyPair(
            factory.generatePublic(new X509EncodedKeySpec(Arrays.copyOfRange(both, middle, both.length))),
            factory.generatePrivate(new PKCS8EncodedKeySpec(Arrays.copyOf(both, middle))));
    }

    /** Stores a key pair, in place of any other, at once. */
    static void store(File path, KeyPair pair) throws IOException {
        File next = new File(path + ".next");
        Files.write(next.toPath(), Der.concatenate(pair.getPrivate().getEncoded(), pair.getPublic().getEncoded()));
        Files.move(next.toPath(), path.toPath(), StandardCopyOption.ATOMIC_MOVE);
    }
}
