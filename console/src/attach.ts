// Files that are attached to a message, as the AI SDK's `useChat` sends them: parts with data URLs.
import { texts } from './text';
import type { Part } from './api';

/** Longest message that the API takes, in bytes of JSON, less what a request has around it. A file of three bytes takes four. */
const MOST_BYTES = 1024 * 1024 - 4096;
/** Pictures that every model takes. */
const PICTURES = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];
/** Longest sides of a picture that has to be made smaller, in pixels. Models see no more than the first. */
const SIDES = [1568, 1024];

export type FilePart = Extract<Part, { type: 'file' }>;

/** Returns true if models are shown the file, and not only its name. */
export const isSeen = (file: FilePart): boolean => PICTURES.includes(file.mediaType);

/** Returns the file as a part of a message that has `parts` already. Throws the reason in words if it does not fit. */
export async function attached(file: File, parts: readonly Part[]): Promise<FilePart> {
  const left = MOST_BYTES - new Blob([JSON.stringify(parts)]).size;
  const whole = await partOf(file, file);
  if (whole.url.length <= left) return whole;
  if (PICTURES.includes(file.type) && file.type !== 'image/gif') {
    for (const side of SIDES) {
      const smaller = await partOf(file, await scaled(file, side));
      if (smaller.url.length <= left) return smaller;
    }
  }
  throw new Error(texts.tooLarge(file.name, file.size, Math.max(0, Math.floor((left * 3) / 4))));
}

/** Returns true if a text fits into one message with `files`. */
export const fits = (text: string, files: readonly Part[]): boolean =>
  new Blob([JSON.stringify([...files, { type: 'text', text }])]).size <= MOST_BYTES;

async function partOf(file: File, content: Blob): Promise<FilePart> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(texts.unreadable(file.name)));
    reader.readAsDataURL(content);
  });
  const mediaType = content.type || 'application/octet-stream';
  return { type: 'file', mediaType, filename: file.name, url: url.replace(/^data:[^,]*/, `data:${mediaType};base64`) };
}

/** Returns the picture as a JPEG whose longest side is at most `side` pixels. */
async function scaled(file: File, side: number): Promise<Blob> {
  const picture = await createImageBitmap(file).catch(() => {
    throw new Error(texts.unreadable(file.name));
  });
  const by = Math.min(1, side / Math.max(picture.width, picture.height));
  const canvas = new OffscreenCanvas(Math.round(picture.width * by), Math.round(picture.height * by));
  const pen = canvas.getContext('2d');
  if (!pen) throw new Error(texts.unreadable(file.name));
  // A JPEG has no transparent parts; they would be black.
  pen.fillStyle = '#fff';
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob({ type: 'image/jpeg', quality: 0.85 });
}
