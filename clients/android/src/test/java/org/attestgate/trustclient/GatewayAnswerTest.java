package org.attestgate.trustclient;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.Test;

public class GatewayAnswerTest {
    private static AcceptSignature challenge(String... lines) {
        return new GatewayAnswer(200, Arrays.asList(lines), null, new byte[0]).challenge();
    }

    @Test
    public void statusChallengeTimeAndCodeAreRead() {
        GatewayAnswer answer = Samples.answer(401, "proof_stale", "abc", "Sun, 06 Nov 1994 08:49:37 GMT");
        assertEquals(401, answer.status());
        assertEquals("proof_stale", answer.denial());
        assertEquals(Long.valueOf(784_111_777), answer.date());
        assertEquals("abc", answer.challenge().nonce());
        assertEquals(Component.TARGET, answer.challenge().components());
    }

    @Test
    public void theChallengeIsFoundAmongOtherLinesAndMembers() {
        String other = "sig1=(\"@status\" :AAAA: 1.5 tok/en;x=?0);created=1;tag=\"other\", flag;a=-7, bare=x";
        assertEquals("abc", challenge(other, "  " + Samples.acceptSignature("abc", "") + "\t").nonce());
    }

    @Test
    public void anUnreadableChallengeIsIgnored() {
        String good = Samples.acceptSignature("a", "");
        List<String> unreadable = Arrays.asList(
            "", "attest", "attest=(", "attest=1", "attest=();created;nonce=\"x\"",
            "attest=();nonce=\"x\";tag=\"attestgate-request\"", Samples.acceptSignature("a\u00e4", ""),
            Samples.acceptSignature("", ""), good + ", " + good, good + ",", good + " x",
            Samples.acceptSignature("a", ";unknown"), Samples.acceptSignature("a", ";keyid=\"AAAA\""),
            Samples.acceptSignature(String.join("", Collections.nCopies(513, "a")), ""),
            String.join("", Collections.nCopies(20_000, "a")), "attest=\0", "attest=(\"@target-uri\");created",
            good.replace("\"@path\"", "\"@path\";req"), good.replace("@path", "@method"), good.replace("@path", "Date"),
            good.replace("\"@path\" ", "\"@path\""), good.replace("created", "created=1"));
        for (String line : unreadable) assertNull(line, challenge(line));
        assertNull(challenge(good, good));
    }

    @Test
    public void aKeyAnswersChallengesForItselfOnly() {
        String other = String.join("", Collections.nCopies(43, "A")) + "=";
        assertTrue(challenge(Samples.acceptSignature("a", "")).isFor(Samples.KEY_ID));
        assertTrue(challenge(Samples.acceptSignature("a", ";alg=\"ecdsa-p256-sha256\"")).isFor(Samples.KEY_ID));
        assertTrue(challenge(Samples.acceptSignature("a", ";keyid=\"" + Samples.KEY_ID + "\"")).isFor(Samples.KEY_ID));
        assertFalse(challenge(Samples.acceptSignature("a", ";alg=\"apple-attest\"")).isFor(Samples.KEY_ID));
        assertFalse(challenge(Samples.acceptSignature("a", ";keyid=\"" + other + "\"")).isFor(Samples.KEY_ID));
    }

    @Test
    public void onlyTheJsonOfARefusalHasACode() {
        for (String text : Arrays.asList("", "<html>", "{}", "{\"error\":1}", "[\"error\"]", "{\"error\":\"x\"")) {
            assertNull(text, new GatewayAnswer(401, Collections.emptyList(), null, Bytes.utf8(text)).denial());
        }
        byte[] refusal = Bytes.utf8("{\"error\":\"challenge_required\"}");
        assertNull(new GatewayAnswer(200, Collections.emptyList(), null, refusal).denial());
        assertNotNull(new GatewayAnswer(401, Collections.emptyList(), null, refusal).denial());
        byte[] large = Arrays.copyOf(refusal, GatewayAnswer.DENIAL_LIMIT + 1);
        Arrays.fill(large, refusal.length, large.length, (byte) ' ');
        assertNull(new GatewayAnswer(401, Collections.emptyList(), null, large).denial());
    }

    @Test
    public void jsonIsReadStrictly() {
        String good = "{\"a\":[1,-2.5e3,true,null],\"b\":\"\\u00e9\\n\\\"\"} ";
        assertEquals("\u00e9\n\"", Json.text(Json.object(good), "b"));
        assertEquals(Long.valueOf(-7), Json.integer(Json.object("{\"a\":-7}"), "a"));
        String deep = String.join("", Collections.nCopies(40, "[")) + String.join("", Collections.nCopies(40, "]"));
        for (String text : Arrays.asList(
            "", "{", "{}x", "{\"a\"}", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "{\"a\":01}", "{\"a\":\"\t\"}", "{'a':1}",
            "{\"a\":\"\\x\"}", "{\"a\":+1}", "{\"a\":" + deep + "}")) {
            assertNull(text, Json.object(text));
        }
        String quoted = "{\"a\":" + Json.quote("\"\\\n\u00e9") + "}";
        assertEquals("\"\\\n\u00e9", Json.text(Json.object(quoted), "a"));
    }

    @Test
    public void otherDatesAreRefused() {
        for (String date : Arrays.asList(
            "", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 UTC", "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ")) {
            assertNull(date, HttpDate.seconds(date));
        }
    }
}
