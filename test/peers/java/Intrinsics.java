/* SPDX-License-Identifier: Apache-2.0 */

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.zip.Adler32;
import java.util.zip.CRC32;
import java.util.zip.CRC32C;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** Works in main by what a JVM has stubs for: copies, fills, checksums, ciphers, digests, large numbers, functions. */
public final class Intrinsics {
    private static final int[] SIZES = {0, 1, 3, 8, 15, 16, 31, 33, 64, 100, 130, 300};
    private static final String[] DIGESTS = {"MD5", "SHA-1", "SHA-256", "SHA-512", "SHA3-256"};
    private static final byte[] BYTES = new byte[1024];
    private static final Object[] OBJECTS = new String[512];
    private static final MessageDigest[] DIGEST = new MessageDigest[DIGESTS.length];
    private static final Cipher[] CIPHERS = new Cipher[4];
    private static volatile long sink;

    private static long copies(int n) {
        byte[] bytes = BYTES.clone();
        char[] chars = new char[512];
        int[] ints = new int[512];
        long[] longs = new long[512];
        Object[] objects = new String[512];
        System.arraycopy(BYTES, 1, bytes, 0, n);
        System.arraycopy(bytes, 0, bytes, 3, n);
        System.arraycopy(chars, 1, chars, 5, n);
        System.arraycopy(ints, 0, ints, 1, n);
        System.arraycopy(longs, 0, longs, 1, n);
        System.arraycopy(objects, 0, objects, 1, n);
        System.arraycopy(OBJECTS, 0, objects, 1, n);
        Object[] checked = Arrays.copyOf(OBJECTS, n, Object[].class);
        Arrays.fill(bytes, 0, n, (byte) 2);
        Arrays.fill(chars, 0, n, 'a');
        Arrays.fill(ints, 0, n, 7);
        return bytes[n] + chars[n] + ints[n] + longs[n] + checked.length;
    }

    private static long texts(int n) {
        byte[] other = Arrays.copyOf(BYTES, n + 1);
        String text = new String(BYTES, 0, n, StandardCharsets.ISO_8859_1);
        byte[] encoded = Base64.getEncoder().encode(other);
        return Arrays.mismatch(BYTES, 0, n, other, 0, n) + Arrays.hashCode(other) + text.indexOf("zx")
               + text.compareTo("aab") + Base64.getDecoder().decode(encoded).length
               + text.getBytes(StandardCharsets.UTF_8).length + Long.toString(n).hashCode();
    }

    private static long checksums(int n) {
        CRC32 crc = new CRC32();
        crc.update(BYTES, 0, n);
        CRC32C crcC = new CRC32C();
        crcC.update(BYTES, 0, n);
        Adler32 adler = new Adler32();
        adler.update(BYTES, 0, n);
        return crc.getValue() + crcC.getValue() + adler.getValue();
    }

    private static long secrets(int n) throws Exception {
        long sum = 0;
        for (MessageDigest digest : DIGEST) {
            if (digest != null) {
                sum += digest.digest(Arrays.copyOf(BYTES, n + 200)).length;
            }
        }
        for (Cipher cipher : CIPHERS) {
            if (cipher != null) {
                sum += cipher.update(BYTES, 0, n + 16).length;
            }
        }
        return sum;
    }

    private static long numbers(int n) {
        BigInteger large = new BigInteger(1, Arrays.copyOf(BYTES, 40 + n)).setBit(0);
        BigInteger product = large.multiply(large.add(BigInteger.TEN));
        double x = n / 100.0 + 0.1;
        return product.bitLength() + large.pow(2).bitLength() + large.modPow(BigInteger.TEN, large.add(BigInteger.TWO)).bitLength()
               + large.shiftLeft(7).shiftRight(3).bitLength()
               + (long) (Math.sin(x) + Math.cos(x * 100) + Math.tan(x) + Math.exp(x) + Math.log(x) + Math.log10(x) + Math.pow(x, 1.7))
               + Long.MAX_VALUE % (n + 1);
    }

    private static void open() {
        for (int i = 0; i < BYTES.length; i++) {
            BYTES[i] = (byte) ('a' + i % 23);
        }
        Arrays.fill(OBJECTS, "");
        SecretKeySpec key = new SecretKeySpec(BYTES, 0, 16, "AES");
        String[] names = {"AES/CBC/NoPadding", "AES/CTR/NoPadding", "AES/ECB/NoPadding", "ChaCha20"};
        for (int i = 0; i < names.length; i++) {
            try {
                CIPHERS[i] = Cipher.getInstance(names[i]);
                if (names[i].contains("ECB")) {
                    CIPHERS[i].init(Cipher.ENCRYPT_MODE, key);
                } else if (names[i].startsWith("AES")) {
                    CIPHERS[i].init(i == 0 ? Cipher.DECRYPT_MODE : Cipher.ENCRYPT_MODE, key, new IvParameterSpec(BYTES, 0, 16));
                } else {
                    CIPHERS[i] = null;
                }
            } catch (java.security.GeneralSecurityException e) {
                CIPHERS[i] = null;
            }
        }
        for (int i = 0; i < DIGESTS.length; i++) {
            try {
                DIGEST[i] = MessageDigest.getInstance(DIGESTS[i]);
            } catch (java.security.NoSuchAlgorithmException e) {
                DIGEST[i] = null;
            }
        }
    }

    private static long round() throws Exception {
        long sum = 0;
        for (int n : SIZES) {
            sum += copies(n) + texts(n) + checksums(n) + secrets(n) + numbers(n);
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        open();
        for (int i = 0;; i++) {
            sink += round();
            if (i == Integer.parseInt(arguments[0])) {
                System.out.println("waiting");
            }
        }
    }
}
