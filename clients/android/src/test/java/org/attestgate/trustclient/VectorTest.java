package org.attestgate.trustclient;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.Before;
import org.junit.Test;

/** The client makes what {@code docs/vectors/android.json} says. The property {@code vectors} names the file. */
public class VectorTest {
    private Map<String, Object> vectors;
    private KeyID keyID;

    @Before
    public void read() throws Exception {
        vectors = Json.object(Bytes.text(Files.readAllBytes(Paths.get(System.getProperty("vectors")))));
        Map<String, Object> key = member(vectors, "key");
        keyID = KeyID.of(hex(Json.text(key, "point")));
        assertEquals(Json.text(key, "keyid"), keyID.base64());
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> member(Map<String, Object> object, String name) {
        return (Map<String, Object>) object.get(name);
    }

    private static byte[] hex(String text) {
        byte[] bytes = new BigInteger("01" + text, 16).toByteArray();
        return Arrays.copyOfRange(bytes, 1, bytes.length);
    }

    private static List<AttestedRequest.Field> fields(Object lines) {
        List<AttestedRequest.Field> fields = new ArrayList<>();
        for (Object line : (List<?>) lines) {
            List<?> pair = (List<?>) line;
            fields.add(new AttestedRequest.Field((String) pair.get(0), (String) pair.get(1)));
        }
        return fields;
    }

    private static String text(List<AttestedRequest.Field> fields) {
        StringBuilder text = new StringBuilder();
        for (AttestedRequest.Field each : fields) {
            text.append(each.name()).append(": ").append(each.value()).append('\n');
        }
        return text.toString();
    }

    @Test
    @SuppressWarnings("unchecked")
    public void proofsAreThoseOfTheFile() {
        GatewayAnswer answer = new GatewayAnswer(
            204, Collections.singletonList(Json.text(vectors, "accept_signature")), null, new byte[0]);
        ReceivedChallenge challenge = new ReceivedChallenge(answer.challenge(), 0);
        assertTrue(answer.challenge().isFor(keyID));
        int count = 0;
        for (Object each : (List<?>) vectors.get("requests")) {
            Map<String, Object> vector = (Map<String, Object>) each;
            if (!"verified".equals(vector.get("verdict"))) continue;
            count++;
            AttestedRequest request = new AttestedRequest(
                Json.text(vector, "method"), RequestTarget.parse(Json.text(vector, "url")),
                fields(vector.get("fields")),
                AttestedRequest.Content.bytes(Bytes.utf8(Json.text(vector, "content"))));
            ProofDraft draft = new ProofDraft(
                request, challenge, keyID, Json.integer(vector, "created"), Json.integer(vector, "counter"));
            assertEquals(Json.text(vector, "signature_base"), Bytes.text(draft.signatureBase()));
            ProofFields proof = draft.fields(hex(Json.text(vector, "signature")));
            assertEquals(text(fields(vector.get("proof"))), text(proof.lines()));
        }
        assertTrue(count >= 4);
    }

    @Test
    public void theKeyBindingIsThatOfTheFile() {
        Map<String, Object> vector = member(vectors, "key_binding");
        EnrolmentNonce nonce = EnrolmentNonce.parse(Json.text(vector, "nonce"));
        String tag = Json.text(vector, "hardware_key_tag");
        byte[] point = hex(Json.text(vector, "certificate_key"));
        assertEquals(Json.text(vector, "thumbprint"), P256.thumbprint(point));
        KeyBindingToken token = new KeyBindingToken(
            new EnrolmentServiceAddress(Json.text(vector, "service")), nonce, tag, point, null, null, null);
        long counter = Json.integer(vector, "counter");
        assertEquals(Json.text(vector, "client_data"), Bytes.text(token.clientData(counter)));
        String expected = Json.text(vector, "token");
        assertEquals(
            expected.substring(0, expected.lastIndexOf('.')),
            token.signingInput(counter, hex(Json.text(vector, "signature")), Json.integer(vector, "iat")));
        Map<String, Object> attested = member(vector, "attested");
        assertArrayEquals(
            hex(Json.text(attested, "nonce-and-tag")), ClientDataForm.NONCE_AND_TAG.challenge(nonce, tag));
        assertArrayEquals(hex(Json.text(attested, "nonce")), ClientDataForm.NONCE.challenge(nonce, tag));
        assertArrayEquals(hex(Json.text(attested, "dsr")), ClientDataForm.DSR.challenge(nonce, tag));
    }
}
