package org.attestgate.trustclient;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;

import java.math.BigInteger;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.attestgate.trustclient.AttestedRequest.Content;
import org.attestgate.trustclient.AttestedRequest.Field;
import org.junit.Test;

public class AttestedRequestTest {
    private static AttestedRequest request(String url, Field... fields) {
        return new AttestedRequest("GET", RequestTarget.parse(url), Arrays.asList(fields), Content.NONE);
    }

    private static String base(AttestedRequest request) {
        return request.signatureBase(request.components(Arrays.asList("x-location", "x-absent")), "()", 7);
    }

    @Test
    public void urlsAreSplitAsTheyAreSent() {
        assertEquals(
            "\"@method\": GET\n\"@authority\": api.example.org\n\"@path\": /a%20b\n\"@query\": ?c=d?e/\n"
                + "\"attest-proof-counter\": 7\n\"@signature-params\": ()",
            base(request("HTTPS://API.example.org:443/a%20b?c=d?e/#f?g")));
        assertEquals(
            "\"@method\": GET\n\"@authority\": [::1]:8443\n\"@path\": /\n\"@query\": ?x\n"
                + "\"attest-proof-counter\": 7\n\"@signature-params\": ()",
            base(request("https://[::1]:8443?x")));
        for (String url : Arrays.asList(
            "", "https://", "https:///a", "http://a", "https://a@b/", "https://a/\u00e4", "https://a/ b", "a/b",
            "https://?a/b")) {
            assertThrows(url, IllegalArgumentException.class, () -> RequestTarget.parse(url));
        }
    }

    @Test
    public void fieldsAreCoveredAndJoined() {
        AttestedRequest request = new AttestedRequest(
            "POST", RequestTarget.parse("https://a/"),
            Arrays.asList(
                new Field("X-Location", " here\t"), new Field("X-Other", "\u00e4"), new Field("x-location", "there"),
                new Field("Content-Type", "text/plain"), new Field("AUTHORIZATION", "Bearer x")),
            Content.bytes(new byte[] {1}));
        assertEquals(
            "\"@method\": POST\n\"@authority\": a\n\"@path\": /\n\"@query\": ?\n"
                + "\"content-digest\": sha-256=:S/USLzRFVMU73i67jNK349FgCtYxw4Wl18ziPHeFRZo=:\n"
                + "\"authorization\": Bearer x\n\"content-type\": text/plain\n\"attest-proof-counter\": 7\n"
                + "\"x-location\": here, there\n\"@signature-params\": ()",
            base(request));
    }

    @Test
    public void whatCannotBeSignedIsAnErrorOfTheCaller() {
        assertEquals(RequestFault.Reason.FIELD_NAME, fault("X Y"));
        assertEquals(RequestFault.Reason.FIELD_NAME, fault(""));
        assertEquals(RequestFault.Reason.FIELD_RESERVED, fault("Signature"));
        assertEquals(RequestFault.Reason.FIELD_RESERVED, fault("Attest-Proof-Counter"));
        assertThrows(RequestFault.class, () -> Content.sha256(new byte[31]));
        assertThrows(ProofFault.class, () -> base(request("https://a", new Field("Content-Type", "a\nb"))));
        assertThrows(ProofFault.class, () -> base(request("https://a", new Field("Authorization", "\u00e4"))));
    }

    private static RequestFault.Reason fault(String name) {
        return assertThrows(RequestFault.class, () -> request("https://a", new Field(name, "v"))).reason();
    }

    @Test
    public void emptyContentHasNoDigest() {
        List<String> components = new AttestedRequest(
            "POST", RequestTarget.parse("https://a"), Collections.emptyList(), Content.bytes(new byte[0]))
            .components(Collections.emptyList());
        assertEquals(Arrays.asList("@method", "@authority", "@path", "@query", "attest-proof-counter"), components);
    }

    @Test
    public void signaturesAreConvertedFromDer() {
        BigInteger largest = BigInteger.ONE.shiftLeft(256).subtract(BigInteger.ONE);
        for (BigInteger r : Arrays.asList(BigInteger.ZERO, BigInteger.ONE, BigInteger.valueOf(128), largest)) {
            byte[] fixed = P256.fixedWidth(der(r.toByteArray(), largest.toByteArray()));
            assertEquals(r, new BigInteger(1, Arrays.copyOf(fixed, 32)));
            assertEquals(largest, new BigInteger(1, Arrays.copyOfRange(fixed, 32, 64)));
        }
        byte[] good = der(new byte[] {1}, new byte[] {2});
        byte[] fixed = new byte[64];
        fixed[31] = 1;
        fixed[63] = 2;
        assertArrayEquals(fixed, P256.fixedWidth(good));
        for (int length = 0; length < good.length; length++) assertNull(P256.fixedWidth(Arrays.copyOf(good, length)));
        assertNull(P256.fixedWidth(Arrays.copyOf(good, 9)));
        assertNull(P256.fixedWidth(der(new byte[] {0, 1}, new byte[] {2})));
        assertNull(P256.fixedWidth(der(new byte[] {-1}, new byte[] {2})));
        assertNull(P256.fixedWidth(der(new byte[0], new byte[] {2, 3})));
        assertNull(P256.fixedWidth(der(BigInteger.ONE.shiftLeft(256).toByteArray(), new byte[] {2})));
    }

    private static byte[] der(byte[] r, byte[] s) {
        byte[] der = new byte[6 + r.length + s.length];
        der[0] = 0x30;
        der[1] = (byte) (der.length - 2);
        der[2] = 2;
        der[3] = (byte) r.length;
        System.arraycopy(r, 0, der, 4, r.length);
        der[4 + r.length] = 2;
        der[5 + r.length] = (byte) s.length;
        System.arraycopy(s, 0, der, 6 + r.length, s.length);
        return der;
    }
}
