/** What one pass over the bytes of JSON text tells without parsing it. */
export interface JsonScan {
  /** Objects and arrays that open. */
  containers: number;
  /** How deep they nest. */
  depth: number;
  /** Colons outside strings: in well-formed JSON, the number of properties as written, duplicates counted. */
  colons: number;
}

const quote = 0x22;
const backslash = 0x5c;

/** One pass, no allocation; text that is not JSON gives numbers that mean little and does no harm. */
export function scanJson(bytes: Uint8Array): JsonScan {
  let containers = 0;
  let depth = 0;
  let deepest = 0;
  let colons = 0;
  const end = bytes.length;
  for (let index = 0; index < end; index++) {
    const byte = bytes[index];
    if (byte === quote) {
      index++;
      for (; index < end && bytes[index] !== quote; index++) if (bytes[index] === backslash) index++;
    } else if (byte === 0x3a) colons++;
    else if (byte === 0x7b || byte === 0x5b) {
      containers++;
      if (++depth > deepest) deepest = depth;
    } else if (byte === 0x7d || byte === 0x5d) depth--;
  }
  return { containers, depth: deepest, colons };
}
