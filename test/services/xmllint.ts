import { spawn } from 'node:child_process';
import { ensureInstalled } from './debian.ts';

/** The errors of libxml2 for a document, or an empty text if it is well-formed. */
export async function xmllint(xml: string): Promise<string> {
  await ensureInstalled('xmllint');
  return new Promise((resolve, reject) => {
    const child = spawn('xmllint', ['--noout', '-'], { stdio: ['pipe', 'ignore', 'pipe'] });
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
    child.once('error', reject).once('close', (code) => resolve(code === 0 ? '' : errors || `exit ${code}`));
    child.stdin.end(xml);
  });
}
