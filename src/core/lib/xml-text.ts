// What no XML 1.0 document may hold, not even escaped: control characters, lone surrogates and two
// noncharacters.
const forbidden = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;

/** Without the characters that XML 1.0 does not allow, and with line ends as every parser normalises them. */
export function xmlText(text: string): string {
  return text.replaceAll(forbidden, '').replaceAll(/\r\n?/g, '\n');
}
