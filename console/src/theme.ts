// Colour theme: light, dark, or that of the system.
export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

const THEME = 'annals-theme';

export function theme(): Theme {
  const kept = localStorage.getItem(THEME);
  return THEMES.find(theme => theme === kept) ?? 'system';
}

export function setTheme(theme: Theme): void {
  localStorage.setItem(THEME, theme);
  document.documentElement.dataset.theme = theme;
}
