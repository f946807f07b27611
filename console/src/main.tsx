import { createRoot } from 'react-dom/client';
import { App } from './app';
import { setTheme, theme } from './theme';
import './style.css';

setTheme(theme());
const root = document.getElementById('root');
if (root) createRoot(root).render(<App />);
