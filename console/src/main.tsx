import { createRoot } from 'react-dom/client';
import { App } from './app';
import { language } from './text';
import { setTheme, theme } from './theme';
import './style.css';

document.documentElement.lang = language;
setTheme(theme());
const root = document.getElementById('root');
if (root) createRoot(root).render(<App />);
