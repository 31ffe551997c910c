package org.attestgate.trustclient.software;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.PrivateKey;
import java.security.Signature;
import java.util.Collections;
import java.util.List;
import org.attestgate.trustclient.Attestor;
import org.attestgate.trustclient.AttestorFault;
import org.attestgate.trustclient.P256;

/** A keystore in files, for the JVM. For tests: everyone who can read the directory has the keys. */
public final class SoftwareKeystore implements Attestor {
    private final File directory;
    private final SoftwareKeyMint keyMint;

    /** Opens a directory, which is made the first time. */
    public SoftwareKeystore(File directory, SoftwareKeyMint keyMint) throws IOException {
        Files.createDirectories(directory.toPath());
        this.directory = directory;
        this.keyMint = keyMint;
    }

    @Override
    public List<byte[]> generateKey(String alias, Purpose purpose, byte[] challenge) throws AttestorFault {
        try {
            KeyPair pair = SoftwareKeyMint.generate();
            SoftwareKeyMint.store(new File(directory, alias), pair);
            return challenge == null ? Collections.emptyList() : keyMint.attest(pair.getPublic(), challenge);
        } catch (IOException | GeneralSecurityException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    @Override
    public byte[] point(String alias) throws AttestorFault {
        return P256.point(pair(alias).getPublic());
    }

    @Override
    public byte[] signature(String alias, byte[] message) throws AttestorFault {
        try {
            Signature signature = Signature.getInstance("SHA256withECDSA");
            signature.initSign(privateKey(alias));
            signature.update(message);
            return signature.sign();
        } catch (GeneralSecurityException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    @Override
    public PrivateKey privateKey(String alias) throws AttestorFault {
        return pair(alias).getPrivate();
    }

    @Override
    public void deleteKey(String alias) throws AttestorFault {
        try {
            Files.deleteIfExists(new File(directory, alias).toPath());
        } catch (IOException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }

    private KeyPair pair(String alias) throws AttestorFault {
        try {
            KeyPair pair = SoftwareKeyMint.load(new File(directory, alias));
            if (pair == null) throw new AttestorFault(AttestorFault.Reason.KEY_LOST);
            return pair;
        } catch (AttestorFault fault) {
            throw fault;
        } catch (IOException | GeneralSecurityException error) {
            throw new AttestorFault(AttestorFault.Reason.UNAVAILABLE, error);
        }
    }
}
